"""A small smooth encoder, whose maps are matched: quick on a CPU, easy to optimise through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from privet.errors import ConfigError
from privet.models.layers import Activation, check_sizes


class ConvEncoder(nn.Module):
    """3×3 convolutions with norm and activation, some followed by 2×2 average pooling.

    Args:
        channels: of an image.
        widths: channels of each layer.
        pooled: the layers that pooling follows, if there are as many; odd sides are rounded up.
        activation: an nn.Module class. Images are optimised through it, which a smooth one eases
            (section 3.2.5 of SPS).
        norm: of a number of channels. BatchNorm mixes examples: what learns from private ones takes
            another.
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        widths: Sequence[int] = (32, 64, 128, 128, 256),
        pooled: Sequence[int] = (0, 1, 3),
        activation: Activation = nn.SiLU,
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, **{f"width_{i}": width for i, width in enumerate(widths)})
        if not widths:
            raise ConfigError("widths is empty; give channels for at least one layer.")
        self.channels, self.num_features = channels, widths[-1]
        self.pooled = frozenset(pooled)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                norm(outputs),
                activation(),
            )
            for inputs, outputs in zip((channels, *widths), widths, strict=False)
        )

    def forward(self, images: Tensor) -> Tensor:
        """The last map of images (N, C, H, W), averaged over positions."""
        return self.last_map(images).mean((2, 3))

    def last_map(self, images: Tensor) -> Tensor:
        """The last map of images (N, C, H, W), with its positions."""
        x = images.contiguous(memory_format=torch.channels_last)  # a third faster on a CPU
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in self.pooled:
                x = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
        return x

    def folded(self) -> Self:
        """A copy for evaluation, with BatchNorms inside the convolutions."""
        copy = deepcopy(self).eval()
        for number, layer in enumerate(copy.layers):
            conv, norm, *others = layer.children()
            if isinstance(norm, nn.BatchNorm2d):  # there is none in what is folded already
                assert isinstance(conv, nn.Conv2d)
                copy.layers[number] = nn.Sequential(fuse_conv_bn_eval(conv, norm), *others)
        return copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
