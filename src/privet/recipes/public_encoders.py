"""Encoders that learn from public images, before a private one is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

import torch
from torch import nn

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.keys import seeded
from privet.models import ConvEncoder
from privet.models.layers import group_norm
from privet.privacy import Budget, Event, Relation
from privet.public import PublicRows, WarmUp, procedural_rows, warm_up
from privet.recipes.model import ImageShape
from privet.recipes.releases import Tensors

Told = Callable[[int, int], None]
Norm = Literal["batch", "group"]
Activation = Literal["silu", "relu"]

ENCODER = "encoder"
"""The name under which a memory keeps an encoder."""
_GROUPS = 8  # of channels in a GroupNorm
_ACTIVATIONS: dict[str, type[nn.Module]] = {"silu": nn.SiLU, "relu": nn.ReLU}


class Once(Protocol):
    """The part of a memory that an encoder needs."""

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return what was made under this name before, or make it now and remember it."""


class WithoutPrivate(ABC):
    """What encoders share that never see a private image."""

    def events(self, budget: Budget, relation: Relation) -> tuple[Event, ...]:
        """No events, since no private image is read."""
        return ()

    @abstractmethod
    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Make an encoder of the same layout at once; refuse what training would refuse."""


@dataclass(frozen=True, kw_only=True)
class Pretrained(WithoutPrivate):
    """A small convolutional network, trained to classify the public images.

    Args:
        epochs: passes over the public images.
        learning_rate: the learning rate at its highest.
        batch_size: the most images in a step.
        invert: show light images as dark ones half of the time, if they are grey. It learns to
            look at shapes; SPS and SPS+, which see nothing else, then make either.
        shift: how far images are shifted at most, in pixels.
        norm: BatchNorm, which ends up inside the convolutions, or GroupNorm.
        activation: SiLU, which images are easily optimised through, or ReLU.
        seed: the seed of its weights.
    """

    epochs: int = 12
    learning_rate: float = 0.1
    batch_size: int = 128
    invert: bool = True
    shift: int = 3
    norm: Norm = "batch"
    activation: Activation = "silu"
    seed: int = 0
    needs_public: bool = field(default=True, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("public images that the encoder was trained on",), init=False
    )

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Make the encoder with any weights; refuse public images that cannot teach it."""
        _ = _teaching(public), self._lessons(shape)
        return self.network(shape).folded()

    def network(self, shape: ImageShape) -> ConvEncoder:
        """Make the network as it is before it has learned anything."""
        return conv_encoder(shape[2], self.norm, self.activation)

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Train the encoder, or load it if the memory has it."""
        public = _teaching(public)
        network = self.network(shape)
        training = PublicTraining(self, shape, public, told)
        network.load_state_dict(memory.once(ENCODER, training))
        return network.folded()

    def _trained(self, shape: ImageShape, public: PublicRows, told: Told) -> Tensors:
        generator = torch.Generator().manual_seed(self.seed)
        with seeded(generator):
            network = self.network(shape)
            head = nn.Linear(network.num_features, int(public.targets.max()) + 1)
        device = public.inputs.device
        network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        warm_up(
            network,
            public,
            self._lessons(shape),
            generator=generator,
            head=head.to(device),
            on_epoch=lambda epoch, _: told(epoch + 1, self.epochs),
        )
        return {name: each.cpu().contiguous() for name, each in network.state_dict().items()}

    def _lessons(self, shape: ImageShape) -> WarmUp:
        invert = self.invert and shape[2] == 1
        return WarmUp(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            augment=CropFlip(padding=self.shift, flip=False, mode="constant", invert=invert),
            label_smoothing=0.1,
        )


@dataclass(frozen=True, eq=False)
class PublicTraining:
    """The training of an encoder on public rows, and on nothing else; a call carries it out."""

    encoder: Pretrained
    shape: ImageShape
    public: PublicRows
    told: Told

    def __call__(self) -> Tensors:
        """Train the encoder, and return its weights."""
        return self.encoder._trained(self.shape, self.public, self.told)


@dataclass(frozen=True, kw_only=True)
class Procedural(Pretrained):
    """The same network, trained on images of nothing: the last resort where nothing is public.

    Args:
        images: how many images of each random process there are.
    """

    images: int = 400
    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(
        default=("images of random processes, drawn from a seed, that taught the encoder",),
        init=False,
    )

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ConfigError(f"--encoder images is {self.images}: give 1 or more.")

    def outline(self, shape: ImageShape, public: PublicRows | None) -> nn.Module:
        """Make the encoder with any weights."""
        return super().outline(shape, self._rows(shape, 1))

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: Once, told: Told
    ) -> nn.Module:
        """Train the encoder, or load it if the memory has it."""
        device = None if public is None else public.inputs.device
        rows = self._rows(shape, self.images)
        return super().made(shape, rows if device is None else rows.to(device), memory, told)

    def _rows(self, shape: ImageShape, images: int) -> PublicRows:
        return procedural_rows(shape, images, torch.Generator().manual_seed(self.seed))


def conv_encoder(channels: int, norm: Norm, activation: Activation) -> ConvEncoder:
    """Make a convolutional encoder as it is before it has learned anything."""
    return ConvEncoder(
        channels,
        norm=nn.BatchNorm2d if norm == "batch" else partial(group_norm, _GROUPS),
        activation=_ACTIVATIONS[activation],
    )


def _teaching(public: PublicRows | None) -> PublicRows:
    if public is None or int(public.targets.min()) == int(public.targets.max()):
        raise ConfigError(
            "An encoder learns from public images of two classes or more: give --public or "
            "--encoder-data, or another --encoder."
        )
    return public
