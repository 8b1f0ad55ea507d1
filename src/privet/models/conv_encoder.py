"""A small smooth encoder, whose maps are matched: quick on a CPU, easy to optimise through."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Self

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from privet.models.layers import Activation, check_sizes


class ConvEncoder(nn.Module):
    """3×3 convolutions with BatchNorm and activation, some followed by 2×2 average pooling.

    Args:
        channels: of an image.
        widths: channels of each layer.
        pooled: the layers that pooling follows; odd sides are rounded up.
        activation: an nn.Module class. Images are optimised through it, which a smooth one eases
            (section 3.2.5 of SPS).
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        widths: Sequence[int] = (32, 64, 128, 128, 256),
        pooled: Sequence[int] = (0, 1, 3),
        activation: Activation = nn.SiLU,
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, **{f"width_{i}": width for i, width in enumerate(widths)})
        self.channels, self.num_features = channels, widths[-1]
        self.pooled = frozenset(pooled)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                activation(),
            )
            for inputs, outputs in zip((channels, *widths), widths, strict=False)
        )

    def forward(self, images: Tensor) -> Tensor:
        """The last map of images (N, C, H, W), averaged over positions."""
        x = images
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in self.pooled:
                x = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
        return x.mean((2, 3))

    def folded(self) -> Self:
        """A copy for evaluation, with BatchNorms inside the convolutions."""
        copy = deepcopy(self).eval()
        for number, layer in enumerate(copy.layers):
            conv, norm, activation = layer.children()
            assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
            copy.layers[number] = nn.Sequential(fuse_conv_bn_eval(conv, norm), activation)
        return copy
