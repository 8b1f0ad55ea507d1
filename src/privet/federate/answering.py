"""What a party answers a server: with its own rows, its own ledger, its own hedge.

Whatever a server asks, no more leaves a party than the plan of one reservation pays for, and that
plan follows from the party's own ε. A release that was paid for lies in the party's folder: asked
again, the party sends that, and spends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch

from privet import __version__
from privet.data import ImageSet
from privet.errors import BudgetExceeded, ConfigError, DataError, PrivacyError, PrivetError
from privet.federate.agreement import CENTRALISED, Agreement
from privet.federate.messages import PREPARE, Answer, Ask, Refusal
from privet.federate.party import Party
from privet.federate.sums import IMAGES, LABELS
from privet.hedge import Hedge, Randomness
from privet.paths import absolute
from privet.privacy import Certificate, Ledger, Reservation, certify
from privet.privacy.records import State
from privet.privacy.splits import Split
from privet.recipes.encoder_names import encoder_choice
from privet.recipes.releases import Release, planned_sums, released
from privet.recipes.synthesis_methods import Prepared, check, run, stage_release
from privet.runs.encoder_cache import CachedEncoders, cache_folder
from privet.runs.folder_memory import FolderMemory, probe_of, same_probe
from privet.runs.kept_releases import require_kept
from privet.runs.run_folder import CERTIFICATE, CONFIG, LEDGER, STATE, RunFolder
from privet.runs.run_ledger import find_or_reserve, open_ledger
from privet.runs.run_terms import delta_warnings
from privet.runs.sets import Sets, read_sets
from privet.runs.synthesis_stage import require_memory
from privet.runs.teachers import (
    doubts_of_teachers,
    origins_of,
    refuse_taught,
    with_teachers,
)

_ROWS_PER_BATCH = 500
Note = Callable[[str], None]


def unheard(sentence: str) -> None:
    """Ignore a note, for a party without a terminal of its own."""


class _OtherEmbedding(ConfigError):  # noqa: N818 - a verdict
    """The server uses another embedding, whose sums cannot be added to ours."""


class _Busy(ConfigError):  # noqa: N818 - a verdict
    """Another process of this party is answering already."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a party's folder knows of its ledger (see `run_ledger.Place`)."""

    label: str
    ledger: str
    reservation: str | None = None


def answer(party: Party, ask: Ask, note: Note = unheard) -> Answer:
    """Answer a message of the server; details of a refusal are noted at the party alone.

    Args:
        party: the party, with its data, ledger and folder.
        ask: the message, which nothing depends on but what is released.
        note: called with sentences for the owner.
    """
    try:
        return _answer(party, ask, note)
    except PrivetError as error:
        note(f"{party.name}: {error}")
        return Answer(party=party.name, refusal=_refusal(error))
    except Exception as error:  # whatever it is, its words may be private
        note(f"{party.name}: unexpected {type(error).__name__}: {error}")
        return Answer(party=party.name, refusal=Refusal.FAILED)


def _refusal(error: PrivetError) -> Refusal:
    table: list[tuple[type[PrivetError], Refusal]] = [
        (_OtherEmbedding, Refusal.EMBEDDING),
        (_Busy, Refusal.BUSY),
        (BudgetExceeded, Refusal.BUDGET),
        (PrivacyError, Refusal.GUARANTEE),
        (ConfigError, Refusal.AGREEMENT),
        (DataError, Refusal.DATA),
    ]
    return next((found for kind, found in table if isinstance(error, kind)), Refusal.FAILED)


def _answer(party: Party, ask: Ask, note: Note) -> Answer:
    folder, agreement = RunFolder(Path(party.out), "federate"), ask.agreement
    if not PREPARE <= ask.stage < agreement.num_stages:
        raise ConfigError(f"The server asks for stage {ask.stage} of {agreement.num_stages}.")
    try:
        folder.check_idle()
    except ConfigError as error:
        raise _Busy(str(error)) from None
    check(agreement.system, agreement.image_shape)
    with folder.claimed():
        _agree(party, agreement, folder)
        sets = read_sets(party.choice, require_labels=False)
        private = with_classes(sets.private, agreement, labelled=sets.labelled)
        encoder = encoder_choice(party.encoder)
        refuse_taught(encoder, party.choice)
        sets = sets.with_doubts(*doubts_of_teachers(encoder))
        memory = FolderMemory(folder, agreement.image_shape, origins_of(encoder, party.choice))
        prepared = _prepared(party, agreement, sets, memory, note)
        if ask.stage == PREPARE:
            warnings = delta_warnings(party.delta, party.declared_size, "image")
            for sentence in (*sets.notes, *warnings):
                note(f"{party.name}: {sentence}")
        work = _Work(party, ask, folder, memory, prepared, private, sets.caveats)
        return work.images() if agreement.generation != CENTRALISED else work.summed(note)


def _agree(party: Party, agreement: Agreement, folder: RunFolder) -> None:
    """Take part in one federation for good, under the terms of the first message."""
    folder.refuse_other_layouts()
    body = {
        "schema": folder.schema,
        "privet_version": __version__,
        "agreement": agreement.to_json(),
        "party": party.remembered(),
    }
    if not folder.holds_run:
        folder.check_free(force=False)
        folder.write(CONFIG, body)
        state = _State(
            label=f"federate {party.name} {agreement.federation[:8]}",
            ledger=LEDGER if party.ledger is None else absolute(party.ledger),
        )
        folder.write(STATE, asdict(state))
        return
    stored = folder.read(CONFIG)
    for name in ("agreement", "party"):
        now = {**json.loads(json.dumps(body[name])), "out": None}
        if {**stored[name], "out": None} != now:
            raise ConfigError(
                f"{folder} holds another federation, or one under other terms: answer this one "
                "from another --out."
            )


def with_classes(private: ImageSet, agreement: Agreement, *, labelled: bool) -> ImageSet:
    """A party's images with the labels that were agreed on; a party may lack classes.

    Args:
        private: the private images.
        agreement: the agreement, which names the classes.
        labelled: whether the images have labels of their own.
    """
    if private.image_shape != agreement.image_shape:
        raise ConfigError(
            f"The private images are {private.image_shape} and the federation's "
            f"{agreement.image_shape}: give --resize and --channels as the server does."
        )
    if labelled != bool(agreement.class_names):
        raise ConfigError("Either all parties of a federation have labels, or none has.")
    if not labelled:
        return private
    places = {name: place for place, name in enumerate(agreement.class_names)}
    strange = [name for name in private.class_names or () if name not in places]
    if strange:
        raise ConfigError(
            f"The class {strange[0]!r} is none of the federation's: {', '.join(places)}."
        )
    assert private.labels is not None
    table = np.array([places[name] for name in private.class_names or ()], np.int64)
    return ImageSet(private.images, table[private.labels], agreement.class_names)


def _prepared(
    party: Party, agreement: Agreement, sets: Sets[ImageSet], memory: FolderMemory, note: Note
) -> Prepared:
    assert sets.public is not None
    encoders = CachedEncoders(memory, cache_folder(), note)
    return agreement.prepared(party.encoder, sets.public, encoders, lambda _done, _total: None)


@dataclass(frozen=True, eq=False)
class _Work:
    """The work on one message, in a folder that no other process works in."""

    party: Party
    ask: Ask
    folder: RunFolder
    memory: FolderMemory
    prepared: Prepared
    private: ImageSet
    caveats: tuple[str, ...]

    def summed(self, note: Note) -> Answer:
        """Answer with the noised sum of a stage, from the hedge or the folder; or only agree."""
        release = self._agreed(max(0, self.ask.stage))
        if self.ask.stage == PREPARE:
            return Answer(party=self.party.name)
        with closing(open_ledger(self.party.terms, self._state, self.folder)) as ledger:
            reservation = self._reserved(ledger)
            hedge, stage = self._hedge(reservation), self.ask.stage
            mechanism = planned_sums(hedge, self._clip_norms)[stage]
            noisy = released(hedge, release.embedding, mechanism, self.memory, f"release-{stage}")
            note(f"{self.party.name}: a noised sum of stage {stage} leaves, {mechanism.event}.")
            return Answer(
                party=self.party.name,
                noise_scale=noisy.noise_scale,
                certificate=self._certified(reservation),
                tensors=noisy.blocks,
            )

    def images(self) -> Answer:
        """Answer with the party's own synthetic images."""
        if self.ask.stage == PREPARE:
            return Answer(party=self.party.name)
        agreement = self.ask.agreement
        with closing(open_ledger(self.party.terms, self._state, self.folder)) as ledger:
            reservation = self._reserved(ledger)
            hedge = self._hedge(reservation)
            synthetic = run(
                agreement.system, hedge, self.prepared, self.memory, lambda _done, _total: None
            )
            images, labels = synthetic.take(agreement.count)
            return Answer(
                party=self.party.name,
                certificate=self._certified(reservation),
                tensors={IMAGES: torch.from_numpy(images), LABELS: torch.from_numpy(labels)},
            )

    def _agreed(self, stage: int) -> Release:
        """The party's own release of a stage; refused if its embedding is not the server's."""
        agreement, ask = self.ask.agreement, self.ask
        if bool(ask.centre) != bool(stage):
            raise DataError("A stage is centred on images of the stage before, the first on none.")
        centre = dict(ask.centre) or None
        release = stage_release(agreement.moments, self.prepared, stage, centre, self.memory)
        require_memory(release.embedding.num_coordinates)
        if not same_probe(ask.probe, probe_of(release.embedding, agreement.image_shape)):
            raise _OtherEmbedding(
                "The server looks at images through another encoder, other public images or "
                "another seed of projections: give --encoder and --public as the server does."
            )
        return release

    @property
    def _clip_norms(self) -> list[float]:
        """The clip norms of all stages."""
        system, stages = self.ask.agreement.moments, self.ask.agreement.num_stages
        return [stage_release(system, self.prepared, each).clip_norm for each in range(stages)]

    @property
    def _state(self) -> _State:
        noted = self.folder.read(STATE)
        return _State(**{each.name: noted[each.name] for each in fields(_State)})

    @property
    def _split(self) -> Split:
        """Which rows are private, and which that taught an encoder are not."""
        choice = self.party.choice
        return with_teachers(choice.split, encoder_choice(self.party.encoder))

    def _reserved(self, ledger: Ledger) -> Reservation:
        """The one reservation of this federation, made now or by an earlier process."""
        state = self._state
        found = find_or_reserve(
            ledger,
            state,
            lambda: ledger.reserve(
                epsilon=self.party.epsilon, label=state.label, split=self._split
            ),
        )
        self.folder.write(STATE, asdict(replace(state, reservation=found.id)))
        return found

    def _hedge(self, reservation: Reservation) -> Hedge:
        require_kept(reservation, self.memory, self.folder)
        return Hedge(
            self.private,
            reservation,
            declared_size=self.party.declared_size,
            physical_batch=_ROWS_PER_BATCH,
            randomness=Randomness(self.party.noise_seed),
        )

    def _certified(self, reservation: Reservation) -> Certificate:
        """Write the certificate down; close the reservation once all of it is spent."""
        choice = encoder_choice(self.party.encoder)
        shared = ("images that all parties of the federation have", *self.caveats)
        public = (*shared, *choice.treated_as_public)
        certificate = certify(reservation, public=public)
        self.folder.write(CERTIFICATE, certificate.to_json())
        record = reservation.record
        done = all(
            spent == event.count
            for spent, event in zip(record.spent, reservation.plan.events, strict=True)
        )
        if done and record.state is not State.CLOSED:
            reservation.close()
        return certificate
