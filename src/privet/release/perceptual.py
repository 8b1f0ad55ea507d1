"""Perceptual features of unit norm, whose mean embedding is DP-MEPF's (§3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from privet.augment import to_float
from privet.errors import ConfigError
from privet.models import FeatureMaps
from privet.release.embedding import Features

Maps = Callable[[Tensor], Mapping[str, Tensor]]


@dataclass(frozen=True, eq=False)
class PerceptualFeatures:
    """φ₁ = e / ‖e‖ and φ₂ = e² / ‖e²‖, of all maps e of an image behind each other.

    Guarantees:
        Each has norm 1 up to rounding; both are zero for an image whose maps are.

    Args:
        maps: a function from numbers (N, C, H, W) in [-1, 1] to named maps.
        second: whether φ₂ is wanted.
    """

    maps: Maps
    second: bool

    def __call__(self, images: Tensor) -> Features:
        """The features of bytes (N, H, W, C) or of numbers (N, C, H, W) in [-1, 1].

        Gradients reach the numbers.
        """
        pixels = images if images.is_floating_point() else to_float(images)
        first = unit(torch.cat([_row(each) for each in self.maps(pixels).values()], 1))
        # The squares of φ₁ point where those of e do, and cannot overflow.
        return {"first": first, "second": unit(first.square())} if self.second else {"first": first}

    def size(self, image_shape: tuple[int, int, int]) -> int:
        """The number of coordinates of φ₁, and as many of φ₂, for images (H, W, C)."""
        with torch.no_grad():
            found = self(torch.zeros(1, *image_shape, dtype=torch.uint8))
        return found["first"].shape[1]


def pooled(maps: FeatureMaps, layer: str) -> PerceptualFeatures:
    """Both moments of one layer's mean over positions, by which training stops (DP-MEPF, §3.2)."""
    if layer not in maps.layers:
        raise ConfigError(f"These maps have no layer {layer!r}: choose among {list(maps.layers)}.")
    return PerceptualFeatures(lambda images: {layer: _pooled(maps(images)[layer])}, second=True)


def _pooled(found: Tensor) -> Tensor:
    """Average maps (N, C, H, W) and tokens (N, T, C) over positions, to (N, C)."""
    if found.dim() == 4:
        return found.mean((2, 3))
    return found.mean(1) if found.dim() == 3 else found


def _row(found: Tensor) -> Tensor:
    """Flatten each map to a row, channels last as maps lie in memory, so that nothing is copied."""
    return (found.movedim(1, -1) if found.dim() == 4 else found).flatten(1)


def unit(rows: Tensor) -> Tensor:
    """Scale rows to length 1; rows of zeros stay zeros, with a finite gradient."""
    found: Tensor = _Unit.apply(rows)  # type: ignore[no-untyped-call]
    return found


class _Unit(torch.autograd.Function):
    """Row normalisation whose gradient takes half as many sweeps as by autograd."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        lengths = rows.norm(dim=1, keepdim=True)
        lengths = torch.where(lengths > 0, lengths, 1.0)
        found = rows / lengths
        ctx.save_for_backward(found, lengths)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        found, lengths = ctx.saved_tensors
        along = (found * gradient).sum(1, keepdim=True)
        return torch.addcmul(gradient, found, along, value=-1).div_(lengths)
