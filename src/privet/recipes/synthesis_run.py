"""`privet synthesize` from beginning to end: refuse, prepare, reserve, release, synthesise.

Everything that is done stays done, each under its name in the run's folder: the encoder, every
release, the generator or the batches of each stage, and the images themselves, shard by shard. A
run that is killed goes on with the first thing that is missing.
"""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from torch import nn

from privet import __version__
from privet.errors import ConfigError, Stopped
from privet.hedge import Hedge, Randomness, Team
from privet.privacy import Certificate, Reservation
from privet.privacy.records import State
from privet.recipes.encoder_cache import CachedEncoders, cache_folder
from privet.recipes.encoders import with_taught
from privet.recipes.folder_memory import FolderMemory
from privet.recipes.kept_releases import require_kept
from privet.recipes.private_encoder import PrivatelyTrained, private_encoder
from privet.recipes.releases import Synthetic
from privet.recipes.run import Session
from privet.recipes.run_config import require_same
from privet.recipes.run_folder import (
    CERTIFICATE,
    CONFIG,
    LEDGER,
    RESULT,
    STATE,
    RunFolder,
)
from privet.recipes.run_ledger import find_or_reserve, open_ledger
from privet.recipes.run_metrics import Metrics, begin_events, check_events
from privet.recipes.run_stage import usable_device
from privet.recipes.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.recipes.synthesis_curves import Recorded
from privet.recipes.synthesis_images import Wanted, check_space, write_images
from privet.recipes.synthesis_methods import Prepared, run, stages_of
from privet.recipes.synthesis_quote import predicted, warnings
from privet.recipes.synthesis_result import SynthesisResult, finished
from privet.recipes.synthesis_stage import Audience, SynthesisStage, staged
from privet.recipes.team_memory import LeadersMemory, apart, shared

_ROWS_PER_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class _State:
    """The run's place in a ledger (see `run_ledger.Place`), and how many images it began with.

    Later stages are centred on the images of earlier ones: on those that were asked for when the
    release was made, however many are asked for now.
    """

    label: str
    ledger: str
    first_count: int
    reservation: str | None = None


def synthesize(
    asked: SynthesisAsked,
    session: Session,
    listener: Audience,
    *,
    count: int | None = None,
    png: bool = False,
) -> SynthesisResult:
    """A new run, the rest of one, or more images of a finished one.

    Args:
        asked: what was asked for.
        session: how it is carried out.
        listener: told of progress.
        count: how many images there shall be; as many as before if a run goes on.
        png: write them as PNG files too; also if the run did before.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    if session.noise_seed is not None and session.noise_seed < 0:
        raise ConfigError(
            f"--noise-seed is {session.noise_seed}: give a whole number from 0 upwards."
        )
    _ = usable_device(session.device)
    folder = RunFolder(session.out, "synthesize")
    check_events(folder, asked=session.tensorboard, resume=session.resume)
    try:
        if session.resume:
            return _resume(asked, session, folder, listener, count, png)
        if count is None:
            raise ConfigError("Give --count: how many images to make.")
        return _begin(asked, session, folder, listener, Wanted(count=count, png=png))
    except KeyboardInterrupt:
        if session.resume:
            raise Stopped(f"Stopped: go on with {folder.command_to_resume}") from None
        raise Stopped("Stopped before anything was spent: run it again when you like.") from None


def _begin(
    asked: SynthesisAsked, session: Session, folder: RunFolder, listener: Audience, wanted: Wanted
) -> SynthesisResult:
    folder.check_idle()
    folder.check_free(force=session.force)
    stage = staged(asked, seeded=session.noise_seed is not None)
    stage.require_room()
    _require_teacher(stage, session.team)
    with folder.claimed():
        folder.check_free(force=session.force)  # another process may have been quicker
        check_space(folder, stage.config, wanted, stages_of(stage.config.system))
        kept = folder.clear()
        if kept is not None:
            listener.note(f"The earlier run's ledger is kept as {kept}: what it spent stays spent.")
        body = {
            "schema": folder.schema,
            "privet_version": __version__,
            "asked": asked.placed().given,
            "config": stage.config.to_json(),
        }
        folder.write(CONFIG, {**body, **asdict(wanted)})
        if session.tensorboard:
            begin_events(folder)
        state = _State(
            label=f"synthesize {folder.path.resolve().name} {uuid.uuid4().hex[:8]}",
            ledger=stage.config.ledger or LEDGER,
            first_count=wanted.count,
        )
        folder.write(STATE, asdict(state))
        return _run(stage, state, session, folder, listener, wanted)


def _resume(
    asked: SynthesisAsked,
    session: Session,
    folder: RunFolder,
    listener: Audience,
    count: int | None,
    png: bool,
) -> SynthesisResult:
    folder.refuse_other_layouts()
    if not folder.holds_run:
        raise ConfigError(f"{folder} holds no run to go on with: start one without --resume.")
    if not folder.has(STATE):
        raise ConfigError(f"The run in {folder} never began: start it again with --force.")
    with folder.claimed():
        stored = folder.read(CONFIG)
        wanted = Wanted(count=stored["count"], png=stored["png"]).grown(count, png)
        stage = staged(
            asked.over(stored["asked"]),
            seeded=session.noise_seed is not None,
            unread=folder.has(CERTIFICATE),  # private images have served their turn
        )
        require_same(SynthesisConfig.from_json(stored["config"]), stage.config)
        _require_teacher(stage, session.team)
        noted = folder.read(STATE)
        state = _State(**{field.name: noted[field.name] for field in fields(_State)})
        if session.tensorboard:
            begin_events(folder)
        if wanted.made(folder):
            Metrics(folder).show_samples(wanted.count)
            listener.note("The run is done already.")
            return finished(folder, state.ledger)
        check_space(folder, stage.config, wanted, stages_of(stage.config.system))
        folder.write(CONFIG, {**stored, **asdict(wanted)})
        return _run(stage, state, session, folder, listener, wanted)


def _run(
    stage: SynthesisStage,
    state: _State,
    session: Session,
    folder: RunFolder,
    listener: Audience,
    wanted: Wanted,
) -> SynthesisResult:
    """All that touches the ledger and private rows, and all that follows from it."""
    for sentence in (*stage.sets.notes, *stage.choices):
        listener.note(sentence)
    if session.noise_seed is not None:
        listener.note("The noise is seeded, so this run is NOT private.")
    memory, metrics = FolderMemory(folder, stage.config.image_shape), Metrics(folder)
    listener, team = Recorded(listener, metrics), session.team
    together = shared(memory, team)
    _open(team, stage, session, folder, state.first_count)
    try:
        device = usable_device(session.device)
        encoders = CachedEncoders(together, cache_folder(), listener.note)
        prepared = stage.prepared(state.first_count, encoders, listener, device)
        if state.reservation is None:
            for sentence in warnings(stage, predicted(stage, prepared)):
                listener.note(sentence)
        with closing(open_ledger(stage.config, state, folder)) as ledger:
            reservation = find_or_reserve(
                ledger,
                state,
                lambda: ledger.reserve(
                    epsilon=stage.config.budget.epsilon,
                    label=state.label,
                    portion=stage.config.portion,
                ),
            )
            folder.write(STATE, asdict(replace(state, reservation=reservation.id)))
            require_kept(reservation, memory, folder, taught=stage.lessons is not None)
            synthetic = _released(stage, prepared, session, reservation, together, listener)
            certificate = _certificate(stage, synthetic)
            folder.write(CERTIFICATE, certificate.to_json())
            if reservation.record.state is not State.CLOSED:
                reservation.close()
            with apart(together):
                write_images(synthetic, stage.config, folder, listener, wanted, team)
            metrics.show_samples(wanted.count)
            folder.write(RESULT, _summary(stage, certificate, wanted))
        return finished(folder, state.ledger)
    except KeyboardInterrupt:
        raise Stopped(f"Stopped: go on with {folder.command_to_resume}") from None


def _require_teacher(stage: SynthesisStage, team: Team) -> None:
    if stage.lessons is not None and team.size > 1:
        raise ConfigError(
            "One process teaches an encoder that learns from private images: start it without "
            "torchrun."
        )


def _open(
    team: Team, stage: SynthesisStage, session: Session, folder: RunFolder, count: int
) -> None:
    """What helpers have to know."""
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
    listener: Audience,
) -> Synthetic:
    """The hedge, an encoder that learns behind it, and whatever the system does with both."""
    hedge = Hedge(
        stage.sets.private,
        reservation,
        declared_size=stage.config.declared_size,
        physical_batch=_ROWS_PER_BATCH,
        randomness=Randomness(session.noise_seed),
        device=usable_device(session.device),
    )
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
    listener: Audience,
) -> nn.Module:
    """The encoder that learned from private images, whatever was left of its steps."""
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
    return {
        "schema": "privet.result/1",
        "method": stage.config.to_json()["system"]["kind"],
        "choices": list(stage.choices),
        "guarantee": str(certificate.guarantee) if certificate.private else certificate.statement,
        "images": wanted.count,
        "png": wanted.png,
        "releases": [str(each) for each in certificate.plan.events],
    }
