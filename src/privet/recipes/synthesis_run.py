"""`privet synthesize` from beginning to end: refuse, prepare, reserve, release, synthesise.

Everything that is done stays done, each under its name in the run's folder: the encoder, every
release, the generator or the batches of each stage, and the images themselves, shard by shard. A
run that is killed goes on with the first thing that is missing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from privet import __version__
from privet.data import load
from privet.data.contact_sheet import draw_contact_sheet
from privet.data.guard import shown
from privet.data.options import Channels
from privet.data.shards import check_free_space, largest_shard, read_shards, write_shard
from privet.errors import ConfigError, DataError, Stopped
from privet.hedge import Hedge, Randomness
from privet.privacy import Certificate, Ledger, Reservation
from privet.public import PublicRows
from privet.recipes.releases import Memory, Synthetic, Tensors
from privet.recipes.run import Session
from privet.recipes.run_config import require_same
from privet.recipes.run_folder import (
    CERTIFICATE,
    CONFIG,
    LEDGER,
    RESULT,
    SAMPLES,
    STATE,
    STEPS,
    SYNTHETIC,
    RunFolder,
)
from privet.recipes.run_ledger import find_or_reserve, open_ledger
from privet.recipes.sets import Sets, read_sets, refuse_private
from privet.recipes.synthesis_config import SynthesisAsked, SynthesisConfig, resolved
from privet.recipes.synthesis_methods import Prepared, needs_encoder, run

_ROWS_PER_BATCH = 500
_IMAGES_ON_SHEET = 240


class Audience(Protocol):
    """Whoever started a run."""

    def note(self, sentence: str) -> None:
        """Something worth a line."""

    def progress(self, name: str) -> Callable[[int, int], None]:
        """To be told how much of how much is done."""


@dataclass(frozen=True, kw_only=True)
class SynthesisResult:
    """A finished run, as it lies in its folder."""

    folder: Path
    ledger: Path
    summary: dict[str, Any]
    certificate: Certificate

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "folder": str(self.folder),
            "ledger": str(self.ledger),
            **self.summary,
            "certificate": self.certificate.to_json(),
        }

    def in_words(self) -> dict[str, object]:
        """For a terminal."""
        return {
            "guarantee": self.summary["guarantee"],
            "images": f"{self.summary['images']:,} in {self.folder / SYNTHETIC}",
            "samples": self.folder / SAMPLES,
            "certificate": self.folder / CERTIFICATE,
            "ledger": self.ledger,
        }


@dataclass(frozen=True, kw_only=True)
class _State:
    """The run's place in a ledger; see `run_ledger.Place`."""

    label: str
    ledger: str
    reservation: str | None = None


class FolderMemory:
    """Tensors under names in a run's folder, each whole or not at all."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Read, or made and written."""
        file = f"{STEPS}/{name}.safetensors"
        if not self._folder.has(file):
            made = {key: each.detach().cpu().contiguous() for key, each in make().items()}
            self._folder.write_with(file, lambda path: save_file(made, path))
            return made
        try:
            return load_file(self._folder / file)
        except (OSError, SafetensorError) as error:
            raise DataError(f"{shown(self._folder / file)} cannot be read ({error}).") from None


def synthesize(
    asked: SynthesisAsked, session: Session, count: int | None, listener: Audience
) -> SynthesisResult:
    """A new run, the rest of one, or more images of a finished one.

    Args:
        asked: what was asked for.
        session: how it is carried out.
        count: how many images there shall be; as many as before if a run goes on.
        listener: told of progress.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    folder = RunFolder(session.out, "synthesize")
    try:
        if session.resume:
            return _resume(asked, session, count, folder, listener)
        return _begin(asked, session, count, folder, listener)
    except KeyboardInterrupt:
        if folder.has(STATE):
            raise Stopped(f"Stopped: go on with {folder.command_to_resume}") from None
        raise Stopped("Stopped before anything was spent: run it again when you like.") from None


def _begin(
    asked: SynthesisAsked,
    session: Session,
    count: int | None,
    folder: RunFolder,
    listener: Audience,
) -> SynthesisResult:
    if count is None:
        raise ConfigError("Give --count: how many images to make.")
    _check_count(count)
    folder.check_idle()
    folder.check_free(force=session.force)
    sets, config = staged(asked, session)
    with folder.claimed():
        folder.check_free(force=session.force)
        check_free_space(folder.path, largest_shard(count, config.image_shape))
        kept = folder.clear()
        if kept is not None:
            listener.note(f"The earlier run's ledger is kept as {kept}: what it spent stays spent.")
        folder.write(
            CONFIG,
            {
                "schema": folder.schema,
                "privet_version": __version__,
                "asked": asked.placed().given,
                "count": count,
                "config": config.to_json(),
            },
        )
        state = _State(
            label=f"synthesize {folder.path.resolve().name} {uuid.uuid4().hex[:8]}",
            ledger=config.ledger or LEDGER,
        )
        folder.write(STATE, asdict(state))
        return _run(sets, config, state, session, count, folder, listener)


def _resume(
    asked: SynthesisAsked,
    session: Session,
    count: int | None,
    folder: RunFolder,
    listener: Audience,
) -> SynthesisResult:
    if not folder.holds_run or not folder.has(STATE):
        raise ConfigError(f"{folder} holds no run to go on with: start one without --resume.")
    with folder.claimed():
        stored = folder.read(CONFIG)
        sets, config = staged(asked.over(stored["asked"]), session)
        require_same(SynthesisConfig.from_json(stored["config"]), config)
        wanted = stored["count"] if count is None else count
        _check_count(wanted)
        if wanted < stored["count"]:
            raise ConfigError(f"The run has {stored['count']:,} images: ask for as many or more.")
        folder.write(CONFIG, {**stored, "count": wanted})
        state = _State(**folder.read(STATE))
        return _run(sets, config, state, session, wanted, folder, listener)


def _check_count(count: int) -> None:
    if count < 1:
        raise ConfigError(f"--count is {count}: give 1 or more.")


def staged(
    asked: SynthesisAsked, session: Session, *, unread: bool = False
) -> tuple[Sets, SynthesisConfig]:
    """Read, decide and check; the cheapest refusals come first."""
    _ = asked.budget
    sets = read_sets(asked.data_choice, unread=unread)
    config = resolved(asked, sets, seeded=session.noise_seed is not None)
    if config.encoder_data is not None:
        refuse_private("encoder-data", config.encoder_data, config.data.source)
    if len(config.class_names) < 1:
        raise ConfigError("The private images have no classes: give a labelled set.")
    return sets, config


def _run(
    sets: Sets,
    config: SynthesisConfig,
    state: _State,
    session: Session,
    count: int,
    folder: RunFolder,
    listener: Audience,
) -> SynthesisResult:
    """All that touches the ledger and private rows, and all that follows from it."""
    for sentence in sets.notes:
        listener.note(sentence)
    memory = FolderMemory(folder)
    prepared = prepare(sets, config, count, memory, listener)
    with closing(open_ledger(config, state, folder)) as ledger:
        reservation = find_or_reserve(
            ledger,
            state,
            lambda: ledger.reserve(epsilon=config.budget.epsilon, label=state.label),
        )
        state = replace(state, reservation=reservation.id)
        folder.write(STATE, asdict(state))
        hedge = Hedge(
            sets.private,
            reservation,
            declared_size=config.declared_size,
            physical_batch=_ROWS_PER_BATCH,
            randomness=Randomness(session.noise_seed),
            device=session.device,
        )
        listener.note("Summarising private images, behind the hedge; then everything is free.")
        synthetic = run(config.system, hedge, prepared, memory, listener.progress("matching"))
        folder.write(CERTIFICATE, synthetic.certificate.to_json())
        _write_images(synthetic, config, count, folder, listener)
        _write_sheet(folder)
        folder.write(RESULT, _summary(config, synthetic.certificate, count, reservation))
        reservation.close()
    return _finished(folder, state)


def prepare(
    sets: Sets,
    config: SynthesisConfig,
    count: int,
    memory: Memory,
    listener: Audience,
) -> Prepared:
    """Everything that public images are for, before the first private one."""
    public = None if sets.public is None else PublicRows.from_images(sets.public)
    teaching = public
    if config.encoder_data is not None:
        teaching = _encoder_rows(config)
    encoder = None
    if needs_encoder(config.system):
        if config.encoder.needs_public:
            listener.note("Training the encoder on public images.")
        encoder = config.encoder.made(
            config.image_shape, teaching, memory, listener.progress("encoder")
        )
    looked_at = public if public is not None else teaching
    return Prepared(
        image_shape=config.image_shape,
        num_classes=len(config.class_names),
        encoder=encoder,
        public=None if looked_at is None else looked_at.inputs,
        count=count,
    )


def _encoder_rows(config: SynthesisConfig) -> PublicRows:
    height, width, channels = config.image_shape
    assert config.encoder_data is not None
    return PublicRows.from_images(
        load(
            config.encoder_data,
            resize=(height, width),
            channels=Channels.RGB if channels == 3 else Channels.GREY,
            require_labels=True,
        )
    )


def _write_images(
    synthetic: Synthetic,
    config: SynthesisConfig,
    count: int,
    folder: RunFolder,
    listener: Audience,
) -> None:
    """Shard by shard, one batch in each; a last one that was cut short is made again."""
    place, size = folder / SYNTHETIC, synthetic.batch_size
    done = list(read_shards(place))
    if done and done[-1] < size and sum(done) < count:
        (place / f"part-{len(done) - 1:05d}.parquet").unlink()
        done.pop()
    total = math.ceil(count / size)
    tell = listener.progress("images")
    for number in range(len(done), total):
        images, labels = synthetic.batch(number)
        left = count - number * size
        write_shard(place, number, images[:left], labels[:left], config.class_names)
        tell(min(count, (number + 1) * size), count)


def _write_sheet(folder: RunFolder) -> None:
    images = load(folder / SYNTHETIC)
    rows = np.arange(min(len(images), _IMAGES_ON_SHEET))
    sheet = draw_contact_sheet(images.take(rows), lines=1)
    folder.write_with(SAMPLES, lambda path: sheet.save(path, "PNG"))


def _summary(
    config: SynthesisConfig, certificate: Certificate, count: int, reservation: Reservation
) -> dict[str, Any]:
    return {
        "schema": "privet.result/1",
        "method": config.to_json()["system"]["kind"],
        "guarantee": str(certificate.guarantee) if certificate.private else certificate.statement,
        "images": count,
        "releases": [str(each) for each in reservation.plan.events],
    }


def _finished(folder: RunFolder, state: _State) -> SynthesisResult:
    assert state.reservation is not None
    with closing(Ledger.open(folder / state.ledger)) as ledger:
        Reservation(ledger, state.reservation).close()
    return SynthesisResult(
        folder=folder.path,
        ledger=folder / state.ledger,
        summary=folder.read(RESULT),
        certificate=Certificate.from_json(folder.read(CERTIFICATE)),
    )
