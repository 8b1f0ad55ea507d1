"""What `privet synthesize` was asked for, and the complete configuration that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Self

import torch

from privet.data import ImageSet
from privet.errors import ConfigError
from privet.privacy import Event
from privet.privacy.splits import Split
from privet.recipes.choices import Chosen, Situation
from privet.recipes.encoder_names import encoder_choice, placed_encoders
from privet.recipes.encoders import SAVED, EncoderChoice
from privet.recipes.forms import Forms
from privet.recipes.mean_settings import DpMerf
from privet.recipes.model import ImageShape
from privet.recipes.presets import named
from privet.recipes.release_presets import PRESETS
from privet.recipes.releases import USUAL_SIZE, relative_noise
from privet.recipes.synthesis_methods import (
    SYSTEMS,
    System,
    needs_encoder,
    takes_light_for_dark,
)
from privet.release.fourier import median_pixel_distance
from privet.runs.data_choice import DataChoice
from privet.runs.made_of import made_of
from privet.runs.run_terms import PrivateTerms, terms_of
from privet.runs.run_words import Words
from privet.runs.saved_config import completed
from privet.runs.sets import Sets
from privet.runs.teachers import Origins, origins_of, with_teachers

FORMS = Forms({System: SYSTEMS, EncoderChoice: SAVED})
_FOR_MEDIAN = 1000  # public images
BALANCED, RELEASED = "balanced", "released"


@dataclass(frozen=True, kw_only=True)
class SynthesisAsked(Words):
    """The command line of `privet synthesize`, in which nearly everything may be left out."""

    preset: str | None = None
    classes: str | None = None
    soft_labels: bool | None = None
    encoder: str | None = None
    encoder_data: str | None = None

    def placed(self) -> Self:
        """Return the same with absolute paths, also of an encoder's files and data."""
        data = None if self.encoder_data is None else _placed(self.encoder_data)
        encoder = None if self.encoder is None else placed_encoders(self.encoder)
        return replace(super().placed(), encoder=encoder, encoder_data=data)


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig(PrivateTerms):
    """Everything that decides what a run makes, but for noise, place and number of images.

    Args:
        preset: the name of the preset that the method's settings started from.
        system: the method and its settings.
        image_shape: height, width and channels of every image.
        class_names: class names of the private images; empty if they have no labels.
        encoder: what looks at images.
        encoder_data: another public set that the encoder learns from; None for none.
        classes: how large synthetic classes are: balanced, or as released counts say.
        soft_labels: whether images come with class probabilities.
    """

    preset: str
    system: System
    image_shape: ImageShape
    class_names: tuple[str, ...]
    encoder: EncoderChoice
    encoder_data: str | None = None
    classes: str = BALANCED
    soft_labels: bool = False

    @property
    def split(self) -> Split:
        """Which rows are private, and which that taught an encoder are not."""
        split = super().split
        if self.encoder_data is not None:
            split = split.with_others(self.encoder_data, *made_of(self.encoder_data).places)
        return with_teachers(split, self.encoder) if needs_encoder(self.system) else split

    @property
    def origins(self) -> Origins:
        """What the files of encoders say of the public rows that taught them."""
        return origins_of(self.encoder, self.data, self.encoder_data)

    @property
    def num_classes(self) -> int:
        """How many classes there are; images without labels are of one."""
        return max(1, len(self.class_names))

    @property
    def before(self) -> tuple[Event, ...]:
        """Events that the budget pays for besides releases: a private encoder's training."""
        return self.encoder.events(self.budget, self.relation) if needs_encoder(self.system) else ()

    @property
    def relative_noise(self) -> float:
        """The noise multiplier of one release over the number of images in a class."""
        return relative_noise(
            self.budget, self.relation, self.declared_size, self.num_classes, self.before
        )

    @property
    def made_by(self) -> Mapping[str, Any]:
        """The method, its settings, its encoder and the size of classes, as plain JSON values."""
        body = self.to_json()
        encoder = {"encoder": body["encoder"]} if needs_encoder(self.system) else {}
        return {**body["system"], **encoder, "classes": self.classes}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(SynthesisConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        made: Self = FORMS.restored(cls, completed(body, portion=None))
        return made


def resolved(
    asked: SynthesisAsked, sets: Sets[ImageSet], *, seeded: bool
) -> tuple[SynthesisConfig, tuple[str, ...]]:
    """Complete the configuration, with a sentence for each choice that nobody made."""
    if asked.method is None:
        raise ConfigError(f"Give --method: {', '.join(SYSTEMS)}.")
    kind = _named(asked.method)()
    config = SynthesisConfig(
        system=kind,
        preset=named(PRESETS, asked.preset or "auto", "--preset"),
        image_shape=sets.private.image_shape,
        class_names=(sets.private.class_names or ()) if sets.labelled else (),
        encoder=encoder_choice(asked.encoder or "conv", invert=takes_light_for_dark(kind)),
        encoder_data=None if asked.encoder_data is None else _placed(asked.encoder_data),
        classes=named((BALANCED, RELEASED), asked.classes or BALANCED, "--classes"),
        soft_labels=bool(asked.soft_labels),
        **terms_of(asked, sets.aside, seeded=seeded),
    )
    situation = _situation(config, sets)
    system = chosen_system(asked.method, config.preset, situation, config.budget.epsilon)
    return replace(config, system=system.settings), system.reasons


def chosen_system(method: str, preset: str, situation: Situation, epsilon: float) -> Chosen[System]:
    """Read a method, with the choices of a preset and of the situation where none were made.

    Args:
        method: the method's name and settings, as typed.
        preset: the name of a preset.
        situation: what is known before a private row is read.
        epsilon: ε that is to be spent.
    """
    typed = _system(method, _named(method)(), situation)
    start = PRESETS[preset](typed, situation, epsilon)
    system = _system(method, start.settings, situation).chosen(situation)
    return Chosen(system.settings, (*start.reasons, *system.reasons))


def _situation(config: SynthesisConfig, sets: Sets[ImageSet]) -> Situation:
    return Situation(
        relative_noise=config.relative_noise,
        size=config.declared_size or USUAL_SIZE,
        num_classes=config.num_classes,
        image_shape=config.image_shape,
        median_distance=_median_distance(config, sets),
    )


def _median_distance(config: SynthesisConfig, sets: Sets[ImageSet]) -> float | None:
    """Measure the median distance between public images, which DP-MERF alone asks for."""
    if sets.public is None or len(sets.public) < 2 or not isinstance(config.system, DpMerf):
        return None
    some = slice(None, None, math.ceil(len(sets.public) / _FOR_MEDIAN))
    return median_pixel_distance(torch.tensor(sets.public.take(some).images[:]))


def _named(method: str) -> type[System]:
    name = method.partition(":")[0]
    if name not in SYSTEMS:
        raise ConfigError(f"--method is {name!r}: choose {', '.join(SYSTEMS)}.")
    return SYSTEMS[name].cls


def _placed(source: str) -> str:
    """Return a built-in name, or a path that is found from any folder."""
    return DataChoice(source=source).placed().source


def _system(text: str, start: System, situation: Situation) -> System:
    """Read a method as typed; what is not typed comes from `start`.

    Keys of nested settings change those that are chosen.
    """
    values = vars(start.chosen(situation).settings).values()
    nested = {type(each): each for each in values if is_dataclass(each)}
    system: System = FORMS.read(System, text, "--method", {type(start): start, **nested})
    return system
