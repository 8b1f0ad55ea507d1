"""A residual label-conditional generator: from a latent vector and a class to a colour image."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import check_sizes
from privet.models.upsampled_conv import UpsampledConv


class ResidualGenerator(nn.Module):
    """A linear layer to 4×4, then residual blocks that double the side, to an image in [-1, 1].

    The "3 residual blocks and a total of 8 convolutional layers" of DP-MEPF (appendix B.1), with
    its labels beside the latent vector. The first of the 8, on a single position, is linear here;
    the 1×1 convolutions of shortcuts are not counted. One more block makes 64×64 images.

    Args:
        num_classes: labels are one-hot beside the latent vector; 1 for an unconditional one.
        channels: of an image.
        image_size: the side of an image, 32 or 64.
        latent: the length of the latent vector.
        width: channels of the last block, which double towards the first; 64 in the paper, and 50
            for 64×64 images.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 3,
        *,
        image_size: int = 32,
        latent: int = 100,
        width: int = 32,
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels, latent=latent, width=width)
        if image_size not in (32, 64):
            raise ConfigError(f"image_size is {image_size}; give 32 or 64.")
        self.num_classes, self.latent = num_classes, latent
        widths = [width * times for times in (16, 8, 4, 2, 1)][0 if image_size == 64 else 1 :]
        self.stem = nn.Linear(latent + num_classes, 4 * 4 * widths[0])
        self.body = nn.Sequential(
            *(_Block(inputs, outputs) for inputs, outputs in pairwise(widths)),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, channels, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """An image for each latent vector and label, in the channels-last layout."""
        one_hot = F.one_hot(labels, self.num_classes).to(latent)
        x = self.stem(torch.cat([latent, one_hot], 1))
        images: Tensor = self.body(x.unflatten(1, (4, 4, -1)).permute(0, 3, 1, 2))
        return images


class _Block(nn.Module):
    """Two normalised and activated convolutions that double the side, beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            UpsampledConv(inputs, outputs),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x) + F.interpolate(self.shortcut(x), scale_factor=2)
        return y
