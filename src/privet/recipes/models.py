"""Models by name, and how each is made for rows of a given shape.

A model is either a network that learns from rows as they are, or a frozen public encoder under a
head that learns from its features (`feature_models`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from privet.models import MLP, ConvNet, LanguageModel, ResNet9, WideResNet, tiny_vit
from privet.recipes.feature_models import EncoderHead, GlyphHead
from privet.recipes.forms import Kind
from privet.recipes.model import Plain, Shape
from privet.recipes.saved_transformers import LocalLanguageModel, LocalTransformer


@dataclass(frozen=True, kw_only=True)
class WideResNetModel(Plain):
    """WRN-depth-width with GroupNorm and weight standardisation."""

    depth: int
    width: int

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network of De et al. 2022."""
        return WideResNet(self.depth, self.width, num_classes, shape[2])


@dataclass(frozen=True, kw_only=True)
class ConvNetModel(Plain):
    """A small network of three convolutions."""

    width: int = 32
    strided: bool = False

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network, for square images."""
        return ConvNet(
            num_classes,
            shape[2],
            image_size=min(shape[:2]),
            width=self.width,
            strided=self.strided,
        )


@dataclass(frozen=True, kw_only=True)
class ResNet9Model(Plain):
    """ResNet-9."""

    width: int = 64

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network of Klause et al. 2022."""
        return ResNet9(num_classes, shape[2], width=self.width)


@dataclass(frozen=True, kw_only=True)
class MLPModel(Plain):
    """Linear layers on rows of a table, or on flattened images."""

    takes = ("images", "rows")

    hidden: tuple[int, ...] = (200,)

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network; without hidden layers it is a linear classifier."""
        return MLP(math.prod(shape), self.hidden, num_classes)


@dataclass(frozen=True, kw_only=True)
class TinyViT(Plain):
    """A small vision transformer with random weights."""

    patch: int = 4
    width: int = 192
    depth: int = 6
    heads: int = 3

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network, for square images."""
        return tiny_vit(
            num_classes,
            min(shape[:2]),
            self.patch,
            self.width,
            self.depth,
            self.heads,
            channels=shape[2],
        )


@dataclass(frozen=True, kw_only=True)
class BlocksModel(Plain):
    """A transformer over words with random weights.

    Args:
        causal: whether a position sees only what comes before it.
        width: width of every layer.
        depth: how many blocks.
        heads: how many heads attention has.
    """

    takes = ("sequences",)

    causal: bool
    width: int = 128
    depth: int = 2
    heads: int = 4

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network of Nasr et al. 2023."""
        return LanguageModel(
            num_classes,
            shape[0],
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            causal=self.causal,
        )


MODELS = {
    "conv-net": Kind(ConvNetModel),
    "linear": Kind(MLPModel, {"hidden": ()}),
    "mlp": Kind(MLPModel),
    "resnet9": Kind(ResNet9Model),
    "wrn-16-4": Kind(WideResNetModel, {"depth": 16, "width": 4}),
    "wrn-40-4": Kind(WideResNetModel, {"depth": 40, "width": 4}),
    "vit": Kind(TinyViT),
    "lm": Kind(BlocksModel, {"causal": True}),
    "mlm": Kind(BlocksModel, {"causal": False}),
    "efficientnet-lite0": Kind(EncoderHead, {"version": 0}),
    "efficientnet-lite1": Kind(EncoderHead, {"version": 1}),
    "efficientnet-lite2": Kind(EncoderHead, {"version": 2}),
    "glyphs": Kind(GlyphHead),
    "transformers": Kind(LocalTransformer),
    "gpt2": Kind(LocalLanguageModel),
}
