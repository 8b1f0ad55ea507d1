"""Label-conditional generators: from a latent vector and a class to an image in [-1, 1]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import check_sizes
from privet.models.upsampled_conv import UpsampledConv


class UpsamplingGenerator(nn.Module):
    """A linear layer, then convolutions between nearest-neighbour enlargements.

    Args:
        num_classes: labels are one-hot beside the latent vector; 1 for an unconditional one.
        channels: of an image.
        image_size: the side of an image, divisible by 4.
        latent: the length of the latent vector.
        widths: channels at a quarter of the side, at half of it, and at the whole, twice.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 1,
        *,
        image_size: int = 28,
        latent: int = 32,
        widths: tuple[int, int, int, int] = (96, 64, 32, 16),
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels, latent=latent)
        check_sizes(image_size=image_size, **{f"width_{i}": each for i, each in enumerate(widths)})
        if image_size % 4:
            raise ConfigError(f"image_size is {image_size}; give a multiple of 4.")
        self.num_classes, self.latent = num_classes, latent
        first, second, third, last = widths
        self.side = image_size // 4
        self.stem = nn.Linear(latent + num_classes, first * self.side**2)
        self.body = nn.Sequential(
            *_block(nn.Conv2d(first, first, 3, padding=1), first),
            *_block(UpsampledConv(first, second), second),
            *_block(UpsampledConv(second, third), third),
            *_block(nn.Conv2d(third, last, 3, padding=1), last),
            nn.Conv2d(last, channels, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """An image for each latent vector and label."""
        one_hot = nn.functional.one_hot(labels, self.num_classes).to(latent)
        x = self.stem(torch.cat([latent, one_hot], 1))
        images: Tensor = self.body(x.unflatten(1, (self.side, self.side, -1)).permute(0, 3, 1, 2))
        return images


def _block(conv: nn.Module, outputs: int) -> list[nn.Module]:
    return [conv, nn.BatchNorm2d(outputs), nn.SiLU()]
