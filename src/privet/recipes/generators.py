"""The generators that systems train, by name, each with its first weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import nn

from privet.errors import ConfigError
from privet.models import CodeGenerator, ResidualGenerator, UpsamplingGenerator
from privet.recipes.choices import Choice, Situation
from privet.recipes.model import ImageShape
from privet.recipes.presets import named

_RESIDUAL_SIDES = (32, 64)


class GeneratorSettings(Protocol):
    """What a system says of its generator."""

    @property
    def generator(self) -> str | None:
        """Its name; None takes the one that suits the images."""

    @property
    def latent(self) -> int:
        """Length of its latent vectors."""

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Widths of the layers of an upsampling generator."""

    @property
    def width(self) -> int:
        """Width of the last block of a residual generator."""

    @property
    def seed(self) -> int:
        """The seed of its first weights."""


def generator_for(
    settings: GeneratorSettings, num_classes: int, image_shape: ImageShape
) -> nn.Module:
    """Make a generator with its first weights."""
    make = GENERATORS[settings.generator or usual_generator(image_shape)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        made = make(settings, num_classes, image_shape)
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def usual_generator(image_shape: ImageShape) -> str:
    """Name the residual generator where it fits, which photographs do, else the upsampling one."""
    height, width, _ = image_shape
    return "residual" if height == width and height in _RESIDUAL_SIDES else "upsampling"


def generator_choice(settings: GeneratorSettings, situation: Situation) -> Choice:
    """Choose the generator that suits the images; nothing is said of an upsampling one."""
    kind, (height, width, _) = usual_generator(situation.image_shape), situation.image_shape
    values = {} if kind == "upsampling" else {"generator": kind}
    return Choice(values, f"images are {height}×{width}")


def check_generator(settings: GeneratorSettings, image_shape: ImageShape) -> None:
    """Refuse images that a generator cannot make, before anything is paid for."""
    height, width, _ = image_shape
    kind = settings.generator or usual_generator(image_shape)
    named(GENERATORS, kind, "--method generator")
    if kind == "residual":
        if height != width or height not in _RESIDUAL_SIDES:
            raise ConfigError(
                f"The images are {height}×{width} and a residual generator makes 32×32 or 64×64: "
                "give --resize, or generator=upsampling."
            )
    elif height != width or height % 4:
        fitting = max(4, 4 * round(max(height, width) / 4))
        raise ConfigError(
            f"The images are {height}×{width} and a generator makes squares whose side is a "
            f"multiple of 4: give --resize {fitting}, or --method sps."
        )
    if min(*settings.widths, settings.width, settings.latent) < 1:
        raise ConfigError("--method widths, width and latent must be 1 or more.")


def _upsampling(s: GeneratorSettings, num_classes: int, shape: ImageShape) -> nn.Module:
    side, _, channels = shape
    return UpsamplingGenerator(
        num_classes, channels, image_size=side, latent=s.latent, widths=s.widths
    )


def _residual(s: GeneratorSettings, num_classes: int, shape: ImageShape) -> nn.Module:
    side, _, channels = shape
    return ResidualGenerator(num_classes, channels, image_size=side, latent=s.latent, width=s.width)


def _code(s: GeneratorSettings, num_classes: int, shape: ImageShape) -> nn.Module:
    side, _, channels = shape
    return CodeGenerator(num_classes, channels, image_size=side, latent=s.latent)


GENERATORS: Mapping[str, Callable[[GeneratorSettings, int, ImageShape], nn.Module]] = {
    "upsampling": _upsampling,
    "residual": _residual,
    "code": _code,
}
