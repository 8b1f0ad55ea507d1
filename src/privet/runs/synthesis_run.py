"""`privet synthesize` of images: an encoder, releases, matching, shards.

Everything that is done stays done, each under its name in the run's folder: the encoder, every
release, the generator or the batches of each stage, and the images themselves, shard by shard. A
run that is killed goes on with the first thing that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from privet.errors import ConfigError
from privet.hedge import Hedge, Team
from privet.privacy import Certificate, Reservation
from privet.recipes.encoders import with_taught
from privet.recipes.private_encoders import PrivatelyTrained, private_encoder
from privet.recipes.releases import Synthetic
from privet.recipes.synthesis_methods import Prepared, run, stages_of
from privet.runs.encoder_cache import CachedEncoders, cache_folder
from privet.runs.folder_memory import FolderMemory
from privet.runs.kept_releases import require_kept
from privet.runs.listening import Listener
from privet.runs.run_folder import CERTIFICATE, RESULT, RunFolder
from privet.runs.run_metrics import Metrics
from privet.runs.session import Session, usable_device
from privet.runs.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.runs.synthesis_course import (
    Paying,
    State,
    certified,
    private_rows,
    reserved,
    summary,
    synthesized,
)
from privet.runs.synthesis_curves import Recorded
from privet.runs.synthesis_images import Wanted, check_space, write_images
from privet.runs.synthesis_quote import predicted, warnings
from privet.runs.synthesis_result import SynthesisResult, finished
from privet.runs.synthesis_stage import SynthesisStage, staged
from privet.runs.team_memory import LeadersMemory, apart, shared


def synthesize(
    asked: SynthesisAsked,
    session: Session,
    listener: Listener,
    *,
    count: int | None = None,
    png: bool = False,
) -> SynthesisResult:
    """Start a run, go on with one, or make more images of a finished one.

    Args:
        asked: what was asked for.
        session: how it is carried out.
        listener: told of progress.
        count: how many images there shall be; None keeps the number of the run that goes on.
        png: write them as PNG files too; a run that did before goes on to.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    return synthesized(_Images(), asked, session, listener, count=count, png=png)


class _Images(Paying):
    """The making of images, by any method."""

    noun = "images"

    def staged(self, asked: SynthesisAsked, *, seeded: bool, unread: bool) -> SynthesisStage:
        return staged(asked, seeded=seeded, unread=unread)

    def saved(self, body: Mapping[str, Any]) -> SynthesisConfig:
        return SynthesisConfig.from_json(body)

    def check(
        self, stage: SynthesisStage, session: Session, folder: RunFolder, wanted: Wanted
    ) -> None:
        if stage.lessons is not None and session.team.size > 1:
            raise ConfigError(
                "One process teaches an encoder that learns from private images: start it without "
                "torchrun."
            )
        check_space(folder, stage.config, wanted, stages_of(stage.config.system))

    def run(
        self,
        stage: SynthesisStage,
        state: State,
        session: Session,
        folder: RunFolder,
        listener: Listener,
        wanted: Wanted,
    ) -> SynthesisResult:
        return _run(stage, state, session, folder, listener, wanted)

    def done(self, folder: RunFolder, state: State, wanted: Wanted) -> SynthesisResult:
        Metrics(folder).show_samples(wanted.count)
        return finished(folder, state.ledger)


def _run(
    stage: SynthesisStage,
    state: State,
    session: Session,
    folder: RunFolder,
    listener: Listener,
    wanted: Wanted,
) -> SynthesisResult:
    for sentence in (*stage.sets.notes, *stage.choices):
        listener.note(sentence)
    if session.noise_seed is not None:
        listener.note("The noise is seeded, so this run is NOT private.")
    config, metrics = stage.config, Metrics(folder)
    memory = FolderMemory(folder, config.image_shape, config.origins)
    listener, team = Recorded(listener, metrics), session.team
    together = shared(memory, team)
    _open(team, stage, session, folder, state.first_count)
    device = usable_device(session.device)
    encoders = CachedEncoders(together, cache_folder(), listener.note)
    prepared = stage.prepared(state.first_count, encoders, listener, device)
    if state.reservation is None:
        for sentence in warnings(stage, predicted(stage, prepared)):
            listener.note(sentence)
    with reserved(stage, state, folder) as reservation:
        require_kept(reservation, memory, folder, taught=stage.lessons is not None)
        synthetic = _released(stage, prepared, session, reservation, together, listener)
        certificate = _certificate(stage, synthetic)
        certified(folder, reservation, certificate)
        with apart(together):
            write_images(synthetic, config, folder, listener, wanted, team)
        metrics.show_samples(wanted.count)
        folder.write(RESULT, _summary(stage, certificate, wanted))
    return finished(folder, state.ledger)


def _open(
    team: Team, stage: SynthesisStage, session: Session, folder: RunFolder, count: int
) -> None:
    """Tell helpers what they have to know."""
    if team.size == 1:
        return
    body = {
        "public": False,
        "asked": stage.asked.placed().given,
        "seeded": session.noise_seed is not None,
        "unread": folder.has(CERTIFICATE),
        "count": count,
    }
    team.tell(json.dumps(body).encode())


def _released(
    stage: SynthesisStage,
    prepared: Prepared,
    session: Session,
    reservation: Reservation,
    memory: FolderMemory | LeadersMemory,
    listener: Listener,
) -> Synthetic:
    """Make the hedge, teach an encoder behind it, and run the method with both."""
    hedge = private_rows(stage, session, reservation)
    kept = memory.folder if isinstance(memory, LeadersMemory) else memory
    if stage.lessons is not None:
        assert prepared.encoder is not None
        taught = _taught(stage, stage.lessons, hedge, kept, listener)
        encoder = with_taught(stage.config.encoder, prepared.encoder, taught)
        prepared = replace(prepared, encoder=encoder)
    if not kept.num_paid:
        listener.note("Summarising private images, behind the hedge; then everything is free.")
    shared_hedge = hedge.shared_with(session.team)
    return run(stage.config.system, shared_hedge, prepared, memory, listener.progress("matching"))


def _taught(
    stage: SynthesisStage,
    lessons: PrivatelyTrained,
    hedge: Hedge,
    memory: FolderMemory,
    listener: Listener,
) -> nn.Module:
    """Teach the encoder by private images with the steps that are left, or load it."""
    if not memory.learned_names:
        listener.note("The encoder learns from private images, behind the hedge.")
    return private_encoder(
        hedge,
        lessons,
        image_shape=stage.config.image_shape,
        num_classes=stage.config.num_classes,
        noise_ratios=stage.noise_ratios,
        memory=memory,
        on_step=listener.progress("encoder"),
    )


def _certificate(stage: SynthesisStage, synthetic: Synthetic) -> Certificate:
    named = synthetic.certificate
    return replace(named, public=(*named.public, *stage.treated_as_public))


def _summary(stage: SynthesisStage, certificate: Certificate, wanted: Wanted) -> dict[str, Any]:
    method = stage.config.to_json()["system"]["kind"]
    return summary(method, stage.choices, certificate, wanted, "images")
