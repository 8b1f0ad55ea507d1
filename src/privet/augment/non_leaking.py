"""Geometric changes of training images that a generator is told of, so that it need not make them.

References:
    Karras et al., Training Generative Adversarial Networks with Limited Data, 2020; EDM, 2022,
    Appendix F.2: the labels of what was done are given to the network, and zeros when sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from privet.errors import ConfigError

_Change = tuple[list[Tensor], Tensor]
"""Numbers that describe what was done to each image, and a matrix each, (N, 3, 3)."""


@dataclass(frozen=True, kw_only=True)
class NonLeaking:
    """Geometric changes, each made to an image with one probability, independently of others.

    Args:
        probability: the probability of each change but the mirror.
        mirror: mirror left to right with probability 1/2.
        scale: standard deviation of the logarithm, to base 2, of a change of size.
        stretch: the same for a stretch along a random direction.
        shift: standard deviation of a shift, as a share of the side.
    """

    probability: float = 0.12
    mirror: bool = True
    scale: float = 0.2
    stretch: float = 0.2
    shift: float = 0.125

    size = 9
    """Numbers that describe a change; all are zero where nothing was done."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"probability is {self.probability:g}; give 0 to 1.")
        if min(self.scale, self.stretch, self.shift) < 0:
            raise ConfigError("scale, stretch and shift must be 0 or more.")

    def __call__(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Changed images (N, C, H, W), and what was done to each, (N, 9)."""
        draws = _Draws(len(images), self.probability, generator)
        done, matrix = [], torch.eye(3).expand(len(images), 3, 3)
        for change in (self._mirrored, self._resized, _turned, self._stretched, self._shifted):
            numbers, own = change(draws)
            done += numbers
            matrix = matrix @ own
        labels = torch.stack(done, 1).to(images.device)
        touched = labels.any(1)[:, None, None, None]
        return torch.where(touched, _warped(images, matrix), images), labels

    def _mirrored(self, draws: _Draws) -> _Change:
        across = draws.coin() * float(self.mirror)
        down = draws.coin() * draws.sometimes()
        return [across, down], _scaling(1 - 2 * across, 1 - 2 * down)

    def _resized(self, draws: _Draws) -> _Change:
        size = draws.normal() * draws.sometimes()
        factor = 2 ** (self.scale * size)
        return [size], _scaling(factor, factor)

    def _stretched(self, draws: _Draws) -> _Change:
        along, size = draws.angle(), draws.normal() * draws.sometimes()
        factor = 2 ** (self.stretch * size)
        matrix = _rotation(along) @ _scaling(factor, 1 / factor) @ _rotation(-along)
        return [size * along.cos(), size * along.sin()], matrix

    def _shifted(self, draws: _Draws) -> _Change:
        moved = draws.sometimes()
        across, down = draws.normal() * moved, draws.normal() * moved
        side = 2.0  # places go from -1 to 1
        return [across, down], _translation(side * self.shift * across, side * self.shift * down)


def _turned(draws: _Draws) -> _Change:
    angle = draws.angle() * draws.sometimes()
    return [angle.cos() - 1, angle.sin()], _rotation(-angle)


class _Draws:
    """Random numbers for each image, of several kinds."""

    def __init__(self, count: int, probability: float, generator: torch.Generator) -> None:
        self._count, self._probability, self._generator = count, probability, generator

    def sometimes(self) -> Tensor:
        return (torch.rand(self._count, generator=self._generator) < self._probability).float()

    def coin(self) -> Tensor:
        return torch.randint(2, (self._count,), generator=self._generator).float()

    def normal(self) -> Tensor:
        return torch.randn(self._count, generator=self._generator)

    def angle(self) -> Tensor:
        return (2 * torch.rand(self._count, generator=self._generator) - 1) * math.pi


def _warped(images: Tensor, matrix: Tensor) -> Tensor:
    """Warp images by a matrix each; what lies beyond an edge is mirrored."""
    grid = F.affine_grid(matrix[:, :2].to(images), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def _scaling(across: Tensor, down: Tensor) -> Tensor:
    return torch.diag_embed(torch.stack([across, down, torch.ones_like(across)], 1))


def _rotation(angle: Tensor) -> Tensor:
    matrix = torch.eye(3).repeat(len(angle), 1, 1)
    matrix[:, 0, 0], matrix[:, 0, 1] = angle.cos(), -angle.sin()
    matrix[:, 1, 0], matrix[:, 1, 1] = angle.sin(), angle.cos()
    return matrix


def _translation(across: Tensor, down: Tensor) -> Tensor:
    matrix = torch.eye(3).repeat(len(across), 1, 1)
    matrix[:, 0, 2], matrix[:, 1, 2] = across, down
    return matrix
