"""Encoders by name: what looks at images in a release, and where it learned to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.models import Encoder, SideBySide, branches, efficientnet_lite, glyph_encoder, joined
from privet.models.layers import group_norm
from privet.privacy import Budget, Event, Relation
from privet.public import PublicRows
from privet.recipes.forms import Kind
from privet.recipes.model import ImageShape
from privet.recipes.private_encoders import PrivatelyTrained, untrained
from privet.recipes.public_encoders import (
    ENCODER,
    Activation,
    Norm,
    Once,
    Pretrained,
    Procedural,
    Told,
    WithoutPrivate,
    conv_encoder,
)
from privet.recipes.releases import PAID_FOR, Tensors

_RELEASES = "releases"  # the folder of a run that holds what left its hedge


class EncoderChoice(Protocol):
    """Where an encoder comes from."""

    @property
    def needs_public(self) -> bool:
        """Whether it learns from public images of this run."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public because of this encoder."""

    def events(self, budget: Budget, relation: Relation) -> tuple[Event, ...]:
        """The events by which it learns from private images, paid for by the run's budget."""

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Make an encoder of the same layout at once; refuse what `made` would refuse."""

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Make the encoder, frozen, for images of this shape."""


@dataclass(frozen=True, kw_only=True)
class Saved(WithoutPrivate):
    """The encoder of an earlier run: its `encoder.safetensors`.

    Args:
        file: the path of that file.
        activation: the activation that it was trained with, which its weights do not tell.
    """

    file: str
    activation: Activation = "silu"
    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("the weights of a saved encoder",), init=False
    )

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Load the encoder; refuse one that does not fit the images."""
        weights = self._weights()
        norm: Norm = "batch" if "layers.0.1.running_mean" in weights else "group"
        network = conv_encoder(shape[2], norm, self.activation)
        first = weights.get("layers.0.0.weight")
        if first is not None and first.dim() == 4 and first.shape[1] != shape[2]:
            raise ConfigError(
                f"{shown(self.file)} is an encoder of {first.shape[1]} channels and the images "
                f"have {shape[2]}: give --channels, or another --encoder."
            )
        try:
            network.load_state_dict(weights)
        except RuntimeError:
            raise DataError(
                f"{shown(self.file)} has other layers or sizes than the encoders of runs: give "
                "the encoder.safetensors of one."
            ) from None
        return network.folded()

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Load the encoder from its file."""
        return self.outline(shape, public)

    @property
    def origin(self) -> Mapping[str, str]:
        """What the file says of itself."""
        try:
            with safe_open(self.file, framework="pt") as file:
                return file.metadata() or {}
        except (OSError, SafetensorError) as error:
            raise self._unreadable(error) from None

    def _weights(self) -> Tensors:
        metadata = self.origin
        try:
            weights = load_file(self.file)
        except (OSError, SafetensorError) as error:
            raise self._unreadable(error) from None
        taught = metadata.items() >= PAID_FOR.items() or Path(self.file).parent.name == _RELEASES
        if taught:
            raise ConfigError(
                f"{shown(self.file)} learned from private images, and nothing would count its ε: "
                "give a public encoder, or --encoder private."
            )
        if not all(each.isfinite().all() for each in weights.values()):
            raise DataError(f"{shown(self.file)} has weights that are not finite: give another.")
        return weights

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(f"{shown(self.file)} cannot be read ({error}).")


@dataclass(frozen=True, kw_only=True)
class ImageNet(WithoutPrivate):
    """EfficientNet-Lite with its ImageNet weights, from a package.

    Args:
        version: 0, 1 or 2.
        image_size: what images are resized to.
    """

    version: int = 0
    image_size: int = 64
    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("ImageNet, by an EfficientNet-Lite that was trained on it",), init=False
    )

    def outline(self, shape: ImageShape, public: PublicRows | None) -> Encoder:
        """Load the encoder, which takes no training."""
        return efficientnet_lite(self.version, self.image_size)

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> Encoder:
        """Load the encoder from its package."""
        return self.outline(shape, public)


@dataclass(frozen=True, kw_only=True)
class Glyphs(WithoutPrivate):
    """The encoder that comes with Privet, for grey images: it costs nothing and needs nothing."""

    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("glyphs of fonts and random images, by the encoder that comes with Privet",),
        init=False,
    )

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Load the encoder; refuse images in colour."""
        if shape[2] != 1:
            raise ConfigError(
                f"--encoder glyphs is for grey images and these have {shape[2]} channels: give "
                "--channels grey, or another --encoder."
            )
        return glyph_encoder().folded()

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Load the encoder from this package."""
        return self.outline(shape, public)


@dataclass(frozen=True, kw_only=True)
class Untrained(WithoutPrivate):
    """The network that private images would teach, with its first weights: it costs nothing.

    Args:
        width: channels of the first layer; the last has eight times as many.
        groups: how many groups each GroupNorm has.
        seed: the seed that its weights are drawn from.
    """

    width: int = 24
    groups: int = 4
    seed: int = 0
    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("an encoder's weights, drawn from a seed",), init=False
    )

    def __post_init__(self) -> None:
        _ = group_norm(self.groups, self.width)

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Draw the encoder's weights from its seed."""
        return untrained(shape[2], self.width, self.groups, self.seed)

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Draw the encoder's weights from its seed."""
        return self.outline(shape, public)


@dataclass(frozen=True, kw_only=True)
class Several:
    """Several encoders, for stages to take in turn or for one release to look through."""

    choices: tuple[EncoderChoice, ...]

    def __post_init__(self) -> None:
        if len(set(self.choices)) < len(self.choices):
            raise ConfigError("--encoder names the same one twice: give another seed, or leave it.")
        if sum(isinstance(each, PrivatelyTrained) for each in self.choices) > 1:
            raise ConfigError("--encoder names two that learn from private images: one is enough.")

    @property
    def needs_public(self) -> bool:
        """Whether any of them learns from public images of this run."""
        return any(each.needs_public for each in self.choices)

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public because of any of them, each once."""
        return tuple(
            dict.fromkeys(name for each in self.choices for name in each.treated_as_public)
        )

    def events(self, budget: Budget, relation: Relation) -> tuple[Event, ...]:
        """The events of the one that learns from private images; empty if none does."""
        return tuple(event for each in self.choices for event in each.events(budget, relation))

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Put outlines of all encoders side by side."""
        return SideBySide([each.outline(shape, public) for each in self.choices])

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Make the encoders one after the other, and put them side by side."""
        return SideBySide(
            [
                each.made(shape, public, _Numbered(memory, number), told)
                for number, each in enumerate(self.choices)
            ]
        )


def encoder_files(count: int) -> list[str]:
    """Name what a memory keeps of so many encoders: one alone has no number."""
    return [ENCODER] if count == 1 else [f"{ENCODER}-{number}" for number in range(count)]


class _Numbered:
    """A memory in which every encoder has a name of its own."""

    def __init__(self, memory: Once, number: int) -> None:
        self._memory, self._number = memory, number

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Do as the memory does, with the encoder's number after the name."""
        return self._memory.once(f"{name}-{self._number}", make)


def choices_of(encoder: EncoderChoice) -> tuple[EncoderChoice, ...]:
    """List the encoders: all of `Several`, or the one."""
    return encoder.choices if isinstance(encoder, Several) else (encoder,)


def needs_nothing_public(encoder: EncoderChoice) -> bool:
    """Whether the encoder is one for runs in which nothing is public."""
    return all(
        isinstance(each, PrivatelyTrained | Untrained | Procedural | Glyphs)
        for each in choices_of(encoder)
    )


def lessons_of(encoder: EncoderChoice) -> PrivatelyTrained | None:
    """How the encoder, or one of several, learns from private images; None if none does."""
    for each in choices_of(encoder):
        if isinstance(each, PrivatelyTrained):
            return each
    return None


def with_taught(choice: EncoderChoice, encoder: nn.Module, taught: nn.Module) -> nn.Module:
    """Put the encoder that private images taught in its place among the others."""
    networks = [
        taught if isinstance(each, PrivatelyTrained) else network
        for each, network in zip(choices_of(choice), branches(encoder).values(), strict=True)
    ]
    return joined(networks)


ENCODERS = {
    "conv": Kind(Pretrained),
    "private": Kind(PrivatelyTrained),
    "procedural": Kind(Procedural),
    "glyphs": Kind(Glyphs),
    "untrained": Kind(Untrained),
    "saved": Kind(Saved),
    "efficientnet-lite0": Kind(ImageNet, {"version": 0}),
    "efficientnet-lite1": Kind(ImageNet, {"version": 1}),
    "efficientnet-lite2": Kind(ImageNet, {"version": 2}),
}
SAVED = {**ENCODERS, "several": Kind(Several)}
"""Names of encoders in saved configurations; nobody types `several`."""
