"""Frozen public encoders under a head that learns from their features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.models import MLP, ConvEncoder, Encoder, efficientnet_lite, glyph_encoder
from privet.recipes.model import Shape, check_sizes

_FEATURE_BATCH = 64
_LEAST_DEVIATION = 1e-3


class _Features(ABC):
    """What models share that put a linear or MLP head on features of a frozen public encoder."""

    takes = ("images",)
    sees_inputs = False
    num_features: ClassVar[int]
    hidden: tuple[int, ...]

    def __post_init__(self) -> None:
        check_sizes(self)

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape of one image's features, which are a vector."""
        return (self.num_features,)

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the head, with its weights as they are before training."""
        return CentredHead(self.num_features, num_classes, self.hidden)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the head, to load trained weights into."""
        return self.network(shape, num_classes)

    @abstractmethod
    def encoder(self) -> nn.Module:
        """Make the frozen encoder, from images to features."""


@dataclass(frozen=True, kw_only=True)
class EncoderHead(_Features):
    """A linear or MLP head on a frozen EfficientNet-Lite, trained on ImageNet.

    Args:
        version: 0, 1 or 2.
        image_size: what images are resized to.
        mirror: average the features of an image and of its mirror image.
        hidden: widths of the head's hidden layers; empty for a linear head.
    """

    num_features = 1280
    treated_as_public = ("a frozen encoder that was trained on ImageNet",)

    version: int
    image_size: int = 112
    mirror: bool = False
    hidden: tuple[int, ...] = ()

    def encoder(self) -> nn.Module:
        """Load the encoder from its package; with `mirror`, average over mirror images."""
        encoder = efficientnet_lite(self.version, self.image_size)
        return _Mirrored(encoder) if self.mirror else encoder


@dataclass(frozen=True, kw_only=True)
class GlyphHead(_Features):
    """A linear or MLP head on the frozen encoder that comes with Privet, for grey images.

    Args:
        image_size: what images are resized to: what the encoder learned from.
        hidden: widths of the head's hidden layers; empty for a linear head.
    """

    num_features = 1024
    treated_as_public = ("a frozen encoder that was trained on glyphs of fonts and random images",)

    image_size: int = 28
    hidden: tuple[int, ...] = ()

    def encoder(self) -> nn.Module:
        """Load the encoder; features are its last map, averaged over quarters of an image."""
        corners = _Corners(glyph_encoder().folded())
        return Encoder(corners, self.num_features, channels=1, image_size=self.image_size)


def features(encoder: nn.Module, images: Tensor) -> Tensor:
    """Compute the encoder's features of images (N, H, W, C) in bytes, in batches."""
    with torch.no_grad():
        found = [encoder(to_float(batch)) for batch in torch.split(images, _FEATURE_BATCH)]
    return torch.cat(found)


class CentredHead(nn.Module):
    """A classifier of features that are centred and scaled by public ones, then of length 1.

    Lengths bound gradients, so that one clip norm suits every encoder. A linear head starts at
    zero.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, num_features: int, num_classes: int, hidden: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("deviation", torch.ones(num_features))
        self.classifier: nn.Module = MLP(num_features, hidden, num_classes)
        if not hidden:
            self.classifier = nn.Linear(num_features, num_classes)
            nn.init.zeros_(self.classifier.weight)
            nn.init.zeros_(self.classifier.bias)

    def centre_on(self, public: Tensor) -> None:
        """Take mean and deviations from features of public images."""
        self.mean.copy_(public.mean(0))
        self.deviation.copy_(public.std(0, correction=0) + _LEAST_DEVIATION)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits of features."""
        centred = (features - self.mean) / self.deviation
        logits: Tensor = self.classifier(nn.functional.normalize(centred, dim=-1))
        return logits


class _Corners(nn.Module):
    """A last map averaged over four quarters of the image: what is where counts."""

    def __init__(self, encoder: ConvEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        maps = self.encoder.last_map(images)
        return nn.functional.adaptive_avg_pool2d(maps, 2).flatten(1)


class _Mirrored(nn.Module):
    """Features averaged over an image and its mirror image."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        both: Tensor = self.encoder(images) + self.encoder(images.flip(-1))
        return both / 2
