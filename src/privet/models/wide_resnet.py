"""WRN-depth-width: the network of private image classification, and of public encoders.

References:
    Zagoruyko and Komodakis, Wide Residual Networks, 2016. De et al., Unlocking High-Accuracy
    Differentially Private Image Classification through Scale, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import Activation, check_sizes, group_norm
from privet.models.standardised import StandardisedConv2d

_STEM = 16  # channels, times the width in the first stage


class WideResNet(nn.Module):
    """A pre-activation residual network of three stages.

    norm="group" is the network of De et al.: activation, GroupNorm, standardised convolution.
    norm="batch" is the original: BatchNorm, activation, convolution. It mixes the examples of a
    batch, so it is for public data. In both, the shortcut of a stage's first block shares that
    block's norm, where jax_privacy's has one more.

    Args:
        depth: 6n + 4 for n blocks in each stage.
        width: the stages have 16, 32 and 64 times as many channels.
        num_classes: the number of logits.
        channels: of an image.
        norm: see above.
        activation: an nn.Module class, such as nn.ReLU or nn.SiLU.
        groups: of a GroupNorm; a divisor of 16.
        conv_affine: give each standardised filter a gain and a bias, as jax_privacy does. Without
            them, WRN-16-4 and WRN-40-4 have the 2.74M and 8.94M parameters that papers print.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        num_classes: int,
        channels: int = 3,
        *,
        norm: Literal["group", "batch"] = "group",
        activation: Activation = nn.ReLU,
        groups: int = 16,
        conv_affine: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(width=width, num_classes=num_classes, channels=channels)
        blocks = _blocks_per_stage(depth)
        layers = _Layers(norm, activation, groups, conv_affine)
        stages, features = _stages(layers, blocks, width)
        self.features = nn.Sequential(
            layers.conv(channels, _STEM, 3),
            *stages,
            layers.before_conv(features),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(features, num_classes)
        nn.init.normal_(self.classifier.weight, std=features**-0.5)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W)."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


@dataclass(frozen=True)
class _Layers:
    norm: Literal["group", "batch"]
    activation: Activation
    groups: int
    conv_affine: bool

    def __post_init__(self) -> None:
        if self.norm not in ("group", "batch"):
            raise ConfigError(f"norm is {self.norm!r}; give 'group' or 'batch'.")
        if self.norm == "batch" and self.conv_affine:
            raise ConfigError("conv_affine is for standardised filters; give norm='group' with it.")

    def before_conv(self, channels: int) -> nn.Sequential:
        if self.norm == "batch":
            return nn.Sequential(nn.BatchNorm2d(channels), self.activation())
        return nn.Sequential(self.activation(), group_norm(self.groups, channels))

    def conv(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
        padding = kernel // 2
        if self.norm == "group":
            affine = self.conv_affine
            return StandardisedConv2d(
                inputs, outputs, kernel, stride, padding, gain=affine, bias=affine
            )
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        return conv


class _Block(nn.Module):
    """Two convolutions beside a shortcut, which is a convolution where the shape changes."""

    def __init__(self, layers: _Layers, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.before_first = layers.before_conv(inputs)
        self.first = layers.conv(inputs, outputs, 3, stride)
        self.before_second = layers.before_conv(outputs)
        self.second = layers.conv(outputs, outputs, 3)
        same = inputs == outputs and stride == 1
        self.shortcut = None if same else layers.conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        ready = self.before_first(x)
        shortcut = x if self.shortcut is None else self.shortcut(ready)
        y: Tensor = self.second(self.before_second(self.first(ready)))
        return y + shortcut


def _blocks_per_stage(depth: int) -> int:
    if depth < 10 or depth % 6 != 4:
        raise ConfigError(f"depth is {depth}; give 6n + 4 with n from 1, such as 10, 16, 28 or 40.")
    return (depth - 4) // 6


def _stages(layers: _Layers, blocks: int, width: int) -> tuple[list[_Block], int]:
    """All blocks, and the number of channels that leave the last one."""
    stages: list[_Block] = []
    inputs = _STEM
    for outputs, first_stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
        for block in range(blocks):
            stages.append(_Block(layers, inputs, outputs, 1 if block else first_stride))
            inputs = outputs
    return stages, inputs
