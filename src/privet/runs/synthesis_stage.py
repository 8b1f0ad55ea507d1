"""`privet synthesize` before anything is spent: configuration, public images, outline, checked."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privet.data import ImageSet, load
from privet.data.options import Channels
from privet.errors import ConfigError
from privet.hedge import GaussianSum
from privet.privacy import Plan
from privet.public import PublicRows, fractal_noise
from privet.recipes.encoders import lessons_of, needs_nothing_public
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import MEDIAN
from privet.recipes.private_encoders import PrivatelyTrained, check_classes
from privet.recipes.public_encoders import Once
from privet.recipes.releases import Release, affordable_sums
from privet.recipes.synthesis_methods import (
    Prepared,
    check,
    check_soft_labels,
    needs_encoder,
    outline_of,
)
from privet.runs.listening import Listener
from privet.runs.origins import doubts, refuse_private
from privet.runs.sets import Sets, read_sets
from privet.runs.synthesis_config import RELEASED, SynthesisAsked, SynthesisConfig, resolved
from privet.runs.teachers import doubts_of_teachers, refuse_taught

_COPIES = 3  # of a release in memory: its sum, what is added to it, and what becomes of it
_NOISE_IMAGES = 4000


@dataclass(frozen=True, kw_only=True)
class SynthesisStage:
    """Everything that a run works with, and that needs no private row.

    Args:
        asked: what was asked for.
        config: the complete configuration that follows from it.
        sets: images; the private ones are for the hedge alone.
        public: public images for principal components and predictions; None if there are none.
        teaching: public images that an encoder learns from; None if there are none.
        outline: the releases, as an encoder that knows nothing yet would make them.
        choices: a sentence for each choice that was made for whoever started the run.
    """

    asked: SynthesisAsked
    config: SynthesisConfig
    sets: Sets[ImageSet]
    public: PublicRows | None
    teaching: PublicRows | None
    outline: list[Release]
    choices: tuple[str, ...] = ()

    @property
    def knows_classes(self) -> bool:
        """Whether public labels mean the private classes."""
        return self.sets.public is not None and self.sets.public_classes is None

    @property
    def mechanisms(self) -> list[GaussianSum]:
        """The mechanisms of the releases, with the least noise for the budget."""
        return affordable_sums(
            self.config.budget,
            self.config.relation,
            [each.clip_norm for each in self.outline],
            self.noise_ratios,
            self.config.before,
        )

    @property
    def noise_ratios(self) -> list[float]:
        """The noise ratios of the releases."""
        return [each.noise_ratio for each in self.outline]

    @property
    def lessons(self) -> PrivatelyTrained | None:
        """How an encoder learns from private images; None if none does."""
        used = needs_encoder(self.config.system)
        return lessons_of(self.config.encoder) if used else None

    @property
    def plan(self) -> Plan:
        """All that will happen to private rows."""
        return Plan.of(*self.config.before, *(each.event for each in self.mechanisms))

    def require_room(self) -> None:
        """Refuse what the owner's ledger would not pay for; nothing is written."""
        self.config.require_room(self.plan)

    def prepared(
        self, count: int, memory: Once, listener: Listener, device: torch.device | None = None
    ) -> Prepared:
        """Make the encoder: all that public images are for, before the first private one.

        An encoder that private images will teach has its first weights.

        Args:
            count: how many images were asked for when the run began.
            memory: keeps an encoder that was trained before.
            listener: told of its training.
            device: where the encoder learns, before it comes back to the CPU; None is the CPU.
        """
        encoder = None
        if needs_encoder(self.config.system):
            if self.config.encoder.needs_public:
                listener.note("The encoder learns from public images.")
            teaching = self.teaching
            if teaching is not None and device is not None:
                teaching = teaching.to(device)
            encoder = self.config.encoder.made(
                self.config.image_shape, teaching, memory, listener.progress("encoder")
            )
        return _prepared(self.config, encoder, self.public, count)

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public."""
        used: list[str] = []
        if isinstance(self.config.system, SpsG):
            noise = "noise in the place of public images, drawn from a seed"
            used.append(noise if self.public is None else "images for components")
        if any(MEDIAN in reason for reason in self.choices):
            used.append("images for a length scale")
        if needs_encoder(self.config.system):
            used.extend(self.config.encoder.treated_as_public)
        if self.sets.test is not None:
            used.append("test rows, declared non-private and left out")
        return (*used, *self.sets.caveats)


def staged(asked: SynthesisAsked, *, seeded: bool = False, unread: bool = False) -> SynthesisStage:
    """Read images, decide and check; the cheapest refusals come first.

    Args:
        asked: what was asked for.
        seeded: whether noise comes from a seed.
        unread: leave private images undecoded where their format allows it.
    """
    _ = asked.budget
    sets = read_sets(asked.data_choice, unread=unread, require_labels=False)
    return staged_with(asked, sets, seeded=seeded)


def staged_with(asked: SynthesisAsked, sets: Sets[ImageSet], *, seeded: bool) -> SynthesisStage:
    """Do as `staged`, with images that were read before."""
    config, choices = resolved(asked, sets, seeded=seeded)
    check(config.system, config.image_shape)
    if needs_encoder(config.system) and lessons_of(config.encoder) is not None:
        check_classes(config.num_classes)
    if config.soft_labels:
        check_soft_labels(config.system, config.num_classes)
    if config.encoder_data is not None:
        refuse_private("encoder-data", config.encoder_data, config.data.source)
        sets = sets.with_doubts(*doubts("encoder-data rows", config.encoder_data))
    refuse_taught(config.encoder, config.data)
    if needs_encoder(config.system):
        sets = sets.with_doubts(*doubts_of_teachers(config.encoder))
    own = None if sets.public is None else PublicRows.from_images(sets.public)
    teaching = own if config.encoder_data is None else _encoder_rows(config)
    public = teaching if own is None else own
    encoder = None
    if needs_encoder(config.system):
        encoder = config.encoder.outline(config.image_shape, teaching)
    stage = SynthesisStage(
        asked=asked,
        config=config,
        sets=sets,
        public=public,
        teaching=teaching,
        outline=outline_of(config.system, _prepared(config, encoder, public, count=1)),
        choices=choices,
    )
    _ = stage.mechanisms  # which refuse clip norms that cannot be
    require_memory(max(each.embedding.num_coordinates for each in stage.outline))
    return stage


def require_memory(coordinates: int) -> None:
    """Refuse a release that this machine cannot hold, before anything is reserved."""
    needed = _COPIES * torch.float64.itemsize * coordinates
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise ConfigError(
            f"The release has {coordinates:,} numbers, which take {needed / 2**30:,.0f} GiB of "
            f"memory where there are {memory / 2**30:,.0f}: choose smaller sizes in --method."
        )


def _prepared(
    config: SynthesisConfig, encoder: nn.Module | None, public: PublicRows | None, count: int
) -> Prepared:
    return Prepared(
        image_shape=config.image_shape,
        num_classes=config.num_classes,
        encoder=encoder,
        public=_images(config, public),
        count=count,
        proportional=config.classes == RELEASED,
    )


def _images(config: SynthesisConfig, public: PublicRows | None) -> Tensor | None:
    """Images for principal components; where nothing is public, of noise."""
    if public is not None:
        return public.inputs
    if needs_encoder(config.system) and needs_nothing_public(config.encoder):
        return fractal_noise(config.image_shape, _NOISE_IMAGES, torch.Generator().manual_seed(0))
    return None


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
