"""Small networks that look at noisy images and are told how noisy they are: guides of a sampler."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.models.layers import check_sizes

_WAVES = 8
_GROUPS = 8


class NoisyClassifier(nn.Module):
    """A network from noisy images and a number for each noise level to logits.

    Args:
        num_classes: of the labels.
        channels: of an image.
        widths: of its layers; each but the first halves the side.
    """

    def __init__(
        self, num_classes: int, channels: int = 3, *, widths: Sequence[int] = (32, 64, 128)
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels)
        self.num_classes, self.body = num_classes, _Body(channels, widths)
        self.head = nn.Linear(widths[-1], num_classes)

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.head(self.maps(images, noise).mean((2, 3)))
        return logits

    def maps(self, images: Tensor, noise: Tensor) -> Tensor:
        """The last maps, before they are averaged."""
        maps: Tensor = self.body(images, _waves(noise))
        return maps


class NoisyDiscriminator(nn.Module):
    """A network that tells real images, from a classifier's maps, noise levels and classes.

    Args:
        classifier: already trained; it stays as it is.
        width: of its own layers.
    """

    def __init__(self, classifier: NoisyClassifier, *, width: int = 64) -> None:
        super().__init__()
        self.classifier = classifier.eval().requires_grad_(False)
        self.body = _Body(classifier.head.in_features, (width, width), classifier.num_classes)
        self.head = nn.Linear(width, 1)

    def forward(self, images: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
        """One logit for each image: high for real ones."""
        one_hot = F.one_hot(labels, self.classifier.num_classes).to(images.dtype)
        maps = self.classifier.maps(images, noise)
        seen: Tensor = self.body(maps, torch.cat([_waves(noise), one_hot], 1))
        logits: Tensor = self.head(seen.mean((2, 3)))[:, 0]
        return logits

    def train(self, mode: bool = True) -> NoisyDiscriminator:
        """Set the mode of its own layers; the classifier stays in evaluation mode."""
        super().train(mode)
        self.classifier.eval()
        return self


class _Body(nn.Module):
    """Convolutions that are all given the same conditioning vector."""

    def __init__(self, channels: int, widths: Sequence[int], more: int = 0) -> None:
        super().__init__()
        check_sizes(**{f"width_{place}": width for place, width in enumerate(widths)})
        size = widths[-1]
        self.told = nn.Sequential(nn.Linear(2 * _WAVES + more, size), nn.SiLU())
        self.convs = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, padding=1)
            for inputs, outputs in zip((channels, *widths), widths, strict=False)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(math.gcd(_GROUPS, each), each) for each in widths)
        self.shifts = nn.ModuleList(nn.Linear(size, each) for each in widths)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        known = self.told(known)
        for place, (conv, norm, shift) in enumerate(
            zip(self.convs, self.norms, self.shifts, strict=True)
        ):
            if place and min(x.shape[2:]) > 1:
                x = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
            x = F.silu(norm(conv(x)) + shift(known)[:, :, None, None])
        return x


def _waves(noise: Tensor) -> Tensor:
    """A number encoded as 16 smooth ones: (N, 16)."""
    angles = noise[:, None] * torch.arange(1, _WAVES + 1, device=noise.device)
    return torch.cat([angles.sin(), angles.cos()], 1)
