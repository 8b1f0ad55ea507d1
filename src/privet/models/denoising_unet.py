"""The U-Net of `diffusers`, told of noise levels, classes and augmentations.

References:
    Ho et al., Denoising Diffusion Probabilistic Models, 2020; Song et al., Score-Based Generative
    Modeling, 2021 (DDPM++); Karras et al., EDM, 2022 (augmentation labels).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import check_sizes

_GROUPS = 8  # of GroupNorm, at most
_HEAD = 32  # channels of an attention head, at most


class DenoisingUNet(nn.Module):
    """A network from noisy images, and what is known of them, to images of the same shape.

    Args:
        num_classes: of the labels; 1 for images without.
        channels: of an image.
        image_size: height and width. Sides that cannot be halved often enough are padded inside.
        widths: channels at each resolution, from the whole one to the coarsest.
        blocks: residual ones at each resolution.
        attention: the resolutions with attention, as places in `widths`; -1 is the coarsest.
        dropout: of residual blocks.
        augmentations: numbers that describe an augmentation; 0 if there is none.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 3,
        *,
        image_size: tuple[int, int],
        widths: Sequence[int] = (32, 64, 64),
        blocks: int = 1,
        attention: Sequence[int] = (-1,),
        dropout: float = 0.0,
        augmentations: int = 0,
    ) -> None:
        super().__init__()
        if not widths:
            raise ConfigError("widths is empty; give channels for at least one resolution.")
        check_sizes(num_classes=num_classes, channels=channels, blocks=blocks)
        check_sizes(**{f"width_{place}": width for place, width in enumerate(widths)})
        self.num_classes, self.channels, self.augmentations = num_classes, channels, augmentations
        self._padding = padding(image_size, 2 ** (len(widths) - 1))
        self.network = _unet(channels, widths, blocks, attention, dropout)
        size = self.network.time_embedding.linear_2.out_features
        self.of_class = nn.Linear(num_classes, size, bias=False)
        self.of_augmentation = nn.Linear(augmentations, size, bias=False) if augmentations else None

    def forward(
        self, images: Tensor, noise: Tensor, labels: Tensor, augmentation: Tensor | None = None
    ) -> Tensor:
        """Run the network on noisy images: one output image for each.

        Args:
            images: (N, C, H, W).
            noise: a number that stands for the noise level of each image, (N,).
            labels: the class of each image, (N,).
            augmentation: what was done to each image, (N, augmentations); `None` for nothing.
        """
        one_hot = F.one_hot(labels, self.num_classes).to(images.dtype)
        known = self.of_class(one_hot * self.num_classes**0.5)
        if augmentation is not None and self.of_augmentation is not None:
            known = known + self.of_augmentation(augmentation.to(images.dtype))
        left, right, top, bottom = self._padding
        padded = F.pad(images, self._padding, mode="replicate") if any(self._padding) else images
        found: Tensor = self.network(padded, noise, class_labels=known).sample
        height, width = found.shape[2:]
        return found[:, :, top : height - bottom, left : width - right]


def padding(image_size: tuple[int, int], multiple: int) -> tuple[int, int, int, int]:
    """Padding on the left, right, top and bottom that makes both sides divisible by `multiple`."""
    (top, bottom), (left, right) = (
        (-side % multiple // 2, -side % multiple - -side % multiple // 2) for side in image_size
    )
    return left, right, top, bottom


def _unet(
    channels: int, widths: Sequence[int], blocks: int, attention: Sequence[int], dropout: float
) -> Any:
    try:
        make: Any = import_module("diffusers").UNet2DModel
    except ImportError:
        raise ConfigError(
            'Diffusion needs the package "diffusers": pip install "privet[diffusion]".'
        ) from None
    levels = range(len(widths))
    places = {levels[place] for place in attention if -len(widths) <= place < len(widths)}
    if len(places) < len(set(attention)):
        raise ConfigError(f"attention is {tuple(attention)}; give places in widths, each once.")
    down = ["AttnDownBlock2D" if level in places else "DownBlock2D" for level in levels]
    up = ["AttnUpBlock2D" if level in places else "UpBlock2D" for level in reversed(levels)]
    network = make(
        in_channels=channels,
        out_channels=channels,
        block_out_channels=tuple(widths),
        layers_per_block=blocks,
        down_block_types=tuple(down),
        up_block_types=tuple(up),
        norm_num_groups=_largest_divisor(_GROUPS, widths),
        attention_head_dim=min(_HEAD, *widths),
        class_embed_type="identity",
        dropout=dropout,
    )
    last = network.conv_out
    nn.init.zeros_(last.weight)  # at first it answers nothing, as in EDM
    nn.init.zeros_(last.bias)
    return network.to(memory_format=torch.channels_last)


def _largest_divisor(most: int, widths: Sequence[int]) -> int:
    return next(each for each in range(most, 0, -1) if not any(width % each for width in widths))
