"""Random Fourier features of pixels, whose mean embedding is DP-MERF's (Harder et al., 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from privet.augment import to_float
from privet.errors import ConfigError
from privet.release.embedding import Features

_MOST_IMAGES = 1000  # half a million distances: their median is known well enough


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """φ(x) = √(2/D) [cos(W x), sin(W x)], with φ(x)·φ(y) close to exp(−‖x − y‖² / 2σ²).

    Guarantees:
        ‖φ(x)‖ = 1 up to rounding, whatever the image: of D/2 frequencies each adds
        (2/D) (cos² + sin²) = 2/D to the square.

    Args:
        frequencies: W, (D/2, pixels); pixels run from 0 to 1, channels first.
    """

    frequencies: Tensor

    @classmethod
    def random(
        cls,
        image_shape: Sequence[int],
        size: int,
        length_scale: float,
        generator: torch.Generator,
    ) -> Self:
        """Draw normal frequencies, of which a Gaussian kernel is made (Rahimi and Recht, 2007).

        Args:
            image_shape: the shape of every image.
            size: D, the number of features, which is even.
            length_scale: σ, of distances between images whose pixels run from 0 to 1.
            generator: of the random frequencies.
        """
        if size < 2 or size % 2:
            raise ConfigError(f"Fourier features come in pairs: give an even number, not {size}.")
        if not 0 < length_scale < math.inf:
            raise ConfigError(f"The length scale must be positive, not {length_scale:g}.")
        shape = size // 2, math.prod(image_shape)
        return cls(torch.randn(shape, generator=generator) / length_scale)

    @property
    def size(self) -> int:
        """D, the number of features."""
        return 2 * len(self.frequencies)

    def __call__(self, images: Tensor) -> Features:
        """The features of bytes (N, H, W, C) or of numbers (N, C, H, W) in [-1, 1].

        Gradients reach the numbers.
        """
        pixels = _unit_pixels(images)
        if pixels.shape[1] != self.frequencies.shape[1]:
            raise ConfigError(
                f"Images have {pixels.shape[1]} pixels; these features were made for "
                f"{self.frequencies.shape[1]}."
            )
        angles = pixels @ self.frequencies.to(pixels).T
        waves = torch.cat([angles.cos(), angles.sin()], 1)
        return {"fourier": math.sqrt(2 / self.size) * waves}


def median_pixel_distance(images: Tensor) -> float:
    """The median distance between public images, as a length scale; of about a thousand at most."""
    if len(images) < 2:
        raise ConfigError(f"A median of distances needs two public images, not {len(images)}.")
    step = math.ceil(len(images) / _MOST_IMAGES)
    return float(torch.pdist(_unit_pixels(images[::step])).median())


def _unit_pixels(images: Tensor) -> Tensor:
    """Images as rows of pixels from 0 to 1."""
    pixels = images if images.is_floating_point() else to_float(images)
    return (pixels.flatten(1) + 1) / 2
