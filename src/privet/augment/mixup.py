"""Mixtures of two images and of their labels (Zhang et al., 2018).

Two private examples must never be mixed: an example mixes with its own views, or with public rows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privet.errors import ConfigError


def mix_pairs(
    first: Tensor, second: Tensor, labels_first: Tensor, labels_second: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Images and label probabilities as weight · first + (1 - weight) · second.

    Args:
        first: images; all leading dimensions of `weight` are theirs too.
        second: images of the same shape, or of one that broadcasts to it.
        labels_first: probabilities, one vector per image.
        labels_second: likewise.
        weight: one number in all, or one per image.
    """
    for labels in (labels_first, labels_second):
        if not labels.is_floating_point():
            raise ConfigError(f"labels are {labels.dtype}; give probabilities, such as one-hot.")
    return _mix(first, second, weight), _mix(labels_first, labels_second, weight)


def cut_pairs(
    first: Tensor,
    second: Tensor,
    labels_first: Tensor,
    labels_second: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The first images with a rectangle of the second, and labels by area (CutMix, 2019).

    Args:
        first: images (N, C, H, W).
        second: as many, of the same shape.
        labels_first: probabilities, one vector per image.
        labels_second: likewise.
        generator: of one rectangle for each image, its area uniform, its centre anywhere.
    """
    height, width = first.shape[2:]
    area = torch.rand(len(first), generator=generator).sqrt()[:, None]  # a share of each side
    down = _inside(height, area, generator)
    across = _inside(width, area, generator)
    cut = (down[:, :, None] & across[:, None, :]).to(first.device)
    weight = 1 - cut.float().mean((1, 2))
    images = torch.where(cut[:, None], second, first)
    return images, _mix(labels_first, labels_second, weight)


def _inside(side: int, share: Tensor, generator: torch.Generator) -> Tensor:
    """Which places along a side lie in a stretch of that share, around a random centre."""
    centre = torch.randint(side, (len(share), 1), generator=generator)
    return (torch.arange(side) - centre).abs() < share * side / 2


def beta(
    alpha: float,
    shape: tuple[int, ...],
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Draws from Beta(alpha, alpha), on the generator's device."""
    if not (alpha > 0 and math.isfinite(alpha)):
        raise ConfigError(f"alpha is {alpha:g}; give a number above 0, such as 0.2.")
    gap = _log_gamma(alpha, shape, generator) - _log_gamma(alpha, shape, generator)
    return torch.sigmoid(gap).to(dtype)


def _log_gamma(alpha: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Log of a Gamma(alpha) draw: of Gamma(alpha + 1) · U^(1/alpha), where small ones underflow."""
    ones = torch.ones(shape, dtype=torch.float64, device=generator.device)
    above = torch._standard_gamma((alpha + 1) * ones, generator)
    exponential = ones.exponential_(generator=generator)  # -log U, and never that of 0
    return above.log() - exponential / alpha


def _mix(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    trailing = max(first.ndim, second.ndim) - weight.ndim
    weight = weight.to(first).reshape(*weight.shape, *(1,) * trailing)
    return weight * first + (1 - weight) * second
