"""The small generator of DP-MERF: from a short code and a class to a grey image in [-1, 1]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import check_sizes


class CodeGenerator(nn.Module):
    """Two linear layers, then two 5×5 convolutions, each after a bilinear enlargement.

    What DP-MERF (Harder et al., 2021) and, after it, DP-MEPF (section 6) train on MNIST and
    FashionMNIST: a code of 5 numbers, 200 hidden units, 16 channels at 7×7 and 8 at 14×14. Their
    last sigmoid, stretched from [0, 1] to [-1, 1], is tanh(x / 2).

    Args:
        num_classes: labels are one-hot beside the code; 1 for an unconditional one.
        channels: of an image.
        image_size: the side of an image, divisible by 4.
        latent: the length of the code.
        hidden: units between the linear layers.
        widths: channels at a quarter of the side and at half of it.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 1,
        *,
        image_size: int = 28,
        latent: int = 5,
        hidden: int = 200,
        widths: tuple[int, int] = (16, 8),
    ) -> None:
        super().__init__()
        first, second = widths
        check_sizes(num_classes=num_classes, channels=channels, latent=latent, hidden=hidden)
        check_sizes(image_size=image_size, width_0=first, width_1=second)
        if image_size % 4:
            raise ConfigError(f"image_size is {image_size}; give a multiple of 4.")
        self.num_classes, self.latent = num_classes, latent
        size = (first, image_size // 4, image_size // 4)
        features = first * (image_size // 4) ** 2
        self.body = nn.Sequential(
            nn.Linear(latent + num_classes, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, features),
            nn.BatchNorm1d(features),
            nn.Unflatten(1, size),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2d(first, second, 5, padding=2),
            nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2d(second, channels, 5, padding=2),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """An image for each code and label."""
        one_hot = nn.functional.one_hot(labels, self.num_classes).to(latent)
        return torch.tanh(self.body(torch.cat([latent, one_hot], 1)) / 2)
