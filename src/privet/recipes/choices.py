"""Settings that follow from noise, classes and images, each with the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar

from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.recipes.model import ImageShape
from privet.recipes.releases import USUAL_SIZE, hedge_noise

Settings = TypeVar("Settings")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known before a private row is read.

    Args:
        relative_noise: the noise multiplier of one release over the number of images in a class.
        size: the number of private images, as declared, or a usual one.
        num_classes: how many classes there are, taken to be equally large.
        image_shape: height, width and channels.
        median_distance: the median distance between public images; None if nobody measured it.
    """

    relative_noise: float
    size: float
    num_classes: int
    image_shape: ImageShape
    median_distance: float | None = None

    @classmethod
    def behind(cls, hedge: Hedge, num_classes: int, image_shape: ImageShape) -> Situation:
        """Describe the situation of a hedge, from its reservation."""
        return cls(
            relative_noise=hedge_noise(hedge, num_classes),
            size=hedge.reservation.record.declared_size or USUAL_SIZE,
            num_classes=num_classes,
            image_shape=image_shape,
        )


@dataclass(frozen=True)
class Choice:
    """Values for settings that nobody gave, and why."""

    values: Mapping[str, Any]
    because: str


@dataclass(frozen=True)
class Chosen(Generic[Settings]):
    """Settings without gaps, and a sentence for each choice that was made."""

    settings: Settings
    reasons: tuple[str, ...]


Chooser = Callable[[Settings, Situation], Choice]
"""A choice that may rest on settings that were given, or chosen before it."""


def chosen(
    settings: Settings, situation: Situation, choosers: Sequence[Chooser[Settings]]
) -> Chosen[Settings]:
    """Fill in settings that are None; those that were given stay."""
    reasons = []
    for choose in choosers:
        choice = choose(settings, situation)
        missing = {
            name: value for name, value in choice.values.items() if getattr(settings, name) is None
        }
        if missing:
            settings = replace(settings, **missing)  # type: ignore[type-var]
            words = _in_words(missing)
            reasons.extend([f"{_listed(words)}: {choice.because}."] if words else [])
    return Chosen(settings, tuple(reasons))


def decided(value: Value | None) -> Value:
    """Return a setting that has been decided; refuse one that is still None."""
    if value is None:
        raise ConfigError("A setting is left open: give it, or take those of `chosen`.")
    return value


def _in_words(values: Mapping[str, Any]) -> list[str]:
    """Write each value as `name = value`; of nested settings, those that differ from defaults."""
    return [
        f"{name} = {_shown(each)}"
        for key, value in values.items()
        for name, each in (_unusual(value) if is_dataclass(value) else [(key, value)])
    ]


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _unusual(value: Any) -> list[tuple[str, Any]]:
    usual = type(value)()
    named = [(each.name, getattr(value, each.name)) for each in fields(value)]
    return [(name, own) for name, own in named if own != getattr(usual, name)]


def _shown(value: Any) -> str:
    """Write a value as one would type it, with commas between thousands."""
    if isinstance(value, tuple):
        return "-".join(map(_shown, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        fraction = Fraction(value).limit_denominator(64)
        return str(fraction) if fraction and float(fraction) == value < 1 else f"{value:.3g}"
    return str(value)
