"""A synthetic set that a training run pays for itself, out of the same reservation.

It is made of one release behind the hedge and serves wherever public images do. The release comes
first in the plan and the steps of training after it, over the same private images: they compose one
after the other. What left the hedge is kept in the run's folder, so that it is paid for once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from privet.data import ImageSet, load
from privet.data.shards import read_shards
from privet.errors import ConfigError
from privet.hedge import Hedge, Randomness, Team
from privet.privacy import Event, Reservation
from privet.recipes.budget_split import Foretold, split_of
from privet.recipes.map_moments import SpsG
from privet.recipes.presets import named
from privet.recipes.synthesis_methods import SYSTEMS, Prepared, run, stages_of
from privet.runs.encoder_cache import CachedEncoders, cache_folder
from privet.runs.folder_memory import FolderMemory
from privet.runs.kept_releases import require_kept
from privet.runs.listening import Listener
from privet.runs.run_folder import SYNTHETIC, RunFolder
from privet.runs.run_terms import relation_of
from privet.runs.run_words import two_digits
from privet.runs.saved_config import require_same
from privet.runs.set_card import write_card
from privet.runs.sets import Sets
from privet.runs.synthesis_config import SynthesisAsked, SynthesisConfig, resolved
from privet.runs.synthesis_images import Wanted, check_space, write_shards, write_sheet
from privet.runs.synthesis_quote import predicted, swamped
from privet.runs.synthesis_stage import SynthesisStage, staged_with
from privet.runs.train_config import Asked

_COUNT = 10_000
_ROWS_PER_BATCH = 500
_ONLY_WITH = ("release_method", "release_count", "encoder")


@dataclass(frozen=True, eq=False, kw_only=True)
class PaidSet:
    """A synthetic set that a training run pays for, and that is still to be made.

    Args:
        share: the share of ε that its release would cost alone.
        reason: the reason for that share.
        count: how many images there will be.
        stage: the stage of its release, with that share for a budget.
    """

    share: float
    reason: str
    count: int
    stage: SynthesisStage

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of its release, for the plan."""
        return self.stage.plan.events

    @property
    def sentences(self) -> Iterator[str]:
        """Sentences about the choices that were made."""
        yield f"Release: {self.share:g} of ε for {self.count:,} synthetic images; {self.reason}."
        yield from self.stage.choices

    def stand_in(self) -> ImageSet:
        """Make black images in the place of those to come, for checks and for timing."""
        private = self.stage.sets.private
        images = np.zeros((self.count, *private.image_shape), np.uint8)
        return ImageSet(images, np.arange(self.count) % private.num_classes, private.class_names)

    def prepared(self, folder: RunFolder, listener: Listener, device: torch.device) -> Prepared:
        """Prepare all that public images are for: an encoder, read if a killed run left one."""
        config = self.stage.config
        check_space(folder, config, self.wanted, stages_of(config.system))
        memory = FolderMemory(folder, config.image_shape, config.origins)
        encoders = CachedEncoders(memory, cache_folder(), listener.note)
        return self.stage.prepared(self.count, encoders, listener, device)

    def warnings(self, prepared: Prepared) -> list[str]:
        """Sentences about what noise will swamp."""
        return swamped(self.stage, predicted(self.stage, prepared))

    @property
    def wanted(self) -> Wanted:
        """What the run is to leave of the set: all its images."""
        return Wanted(count=self.count)

    def made(self, folder: RunFolder) -> bool:
        """Whether all images are in the folder."""
        return sum(read_shards(folder / SYNTHETIC)) == self.count

    def hedge(
        self, reservation: Reservation, randomness: Randomness, device: torch.device
    ) -> Hedge:
        """Put the private images behind a hedge, as they are."""
        return Hedge(
            self.stage.sets.private,
            reservation,
            users=self.stage.sets.users,
            declared_size=self.stage.config.declared_size,
            physical_batch=_ROWS_PER_BATCH,
            randomness=randomness,
            device=device,
        )

    def make(self, prepared: Prepared, hedge: Hedge, folder: RunFolder, listener: Listener) -> None:
        """Make the release, unless it is kept, and draw the images.

        Guarantees:
            The release costs what the reservation's plan says of it, once: it is kept before
            anything is made of it, and a run that lost it does not go on.
        """
        config = self.stage.config
        memory = FolderMemory(folder, config.image_shape)
        if not memory.num_paid:
            listener.note("Summarising private images, behind the hedge.")
        synthetic = run(config.system, hedge, prepared, memory, listener.progress("matching"))
        write_shards(synthetic, config, folder, listener, self.count)
        write_sheet(folder)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, for the run's configuration."""
        return {"count": self.count, "config": self.stage.config.to_json()}

    def require_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to go on with a run that makes another set."""
        if stored["count"] != self.count:
            raise ConfigError(
                f"The run makes {stored['count']:,} synthetic images: ask for as many."
            )
        require_same(SynthesisConfig.from_json(stored["config"]), self.stage.config)

    def require_alone(self, team: Team) -> None:
        """Refuse several processes."""
        if team.size > 1:
            raise ConfigError(
                "One process makes a release and trains with it: start it without torchrun."
            )

    def require_kept(self, reservation: Reservation, folder: RunFolder) -> None:
        """Refuse to go on if what was paid for is not what is there."""
        require_kept(reservation, FolderMemory(folder, self.stage.config.image_shape), folder)

    def images(self, folder: RunFolder) -> ImageSet:
        """Load the images from the run's folder."""
        return load(folder / SYNTHETIC)

    def write_card(self, folder: RunFolder) -> None:
        """Write card and certificate beside the images, once the run has its certificate."""
        write_card(folder, self.stage.config, self.count)


def paid_set(asked: Asked, sets: Sets[ImageSet], *, seeded: bool) -> PaidSet | None:
    """Check what `--release` asks for, and decide its share; None if nothing is asked for."""
    if asked.release is None:
        return None
    if not isinstance(sets.private, ImageSet):
        raise ConfigError("--release makes images: leave it out for tables and text.")
    words = asdict(asked) | {
        "method": asked.release_method or "sps-g",
        "preset": None,
        "ledger": None,
        "portion": None,
        "relation": relation_of(asked).value,
    }
    sets = replace(sets, test=None, notes=())
    with _as_typed():
        whole = SynthesisAsked.of(words)
        split = split_of(asked.release, lambda share: _foretold(_part(whole, share), sets))
        stage = staged_with(_part(whole, split.share), sets, seeded=seeded)
    if stage.lessons is not None:
        raise ConfigError("One budget has room for two parts: choose an --encoder that is public.")
    count = _COUNT if asked.release_count is None else asked.release_count
    if count < 1:
        raise ConfigError(f"--release-count is {count}: give 1 or more.")
    return PaidSet(share=split.share, reason=split.reason, count=count, stage=stage)


def check_words(asked: Asked) -> None:
    """Refuse options that do not go together, before anything is read."""
    if asked.release is None:
        for name in _ONLY_WITH:
            if getattr(asked, name) is not None:
                raise ConfigError(f"--{name.replace('_', '-')} goes with --release: give both.")
        return
    if asked.synthetic is not None:
        raise ConfigError("--release makes synthetic images itself: leave out --synthetic.")
    if two_digits(asked.declared_size) is None:
        raise ConfigError(
            "--release plans by the number of private images, which is private: declare it with "
            "--declared-size."
        )
    named(SYSTEMS, (asked.release_method or "sps-g").partition(":")[0], "--release-method")


def _part(whole: SynthesisAsked, share: float) -> SynthesisAsked:
    """Return what is asked for, with a share of ε for a budget."""
    return replace(whole, epsilon=share * whole.budget.epsilon)


def _foretold(part: SynthesisAsked, sets: Sets[ImageSet]) -> Foretold | None:
    config, _ = resolved(part, sets, seeded=False)
    if not isinstance(config.system, SpsG):
        return None
    return Foretold(config.relative_noise, config.system)


@contextmanager
def _as_typed() -> Iterator[None]:
    """Turn refusals into the words of this command: `--release-method`, not `--method`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace("--method", "--release-method")) from None
