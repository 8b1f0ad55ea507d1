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


@dataclass(frozen=True, kw_only=True)
class NonLeaking:
    """Each change is made to an image with the same probability, and independently of others.

    Args:
        probability: of each change.
        mirror: left to right, with probability 1/2 for every image (EDM), as one of the changes.
        scale: standard deviation of the logarithm, to base 2, of a change of size.
        stretch: likewise of a stretch along a random direction.
        shift: standard deviation, as a share of the side.
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
        count = len(images)
        done: list[Tensor] = []
        matrix = torch.eye(3).expand(count, 3, 3)

        def drawn() -> Tensor:
            return (torch.rand(count, generator=generator) < self.probability).float()

        def normal() -> Tensor:
            return torch.randn(count, generator=generator) * drawn()

        left = torch.randint(2, (count,), generator=generator).float() * float(self.mirror)
        down = torch.randint(2, (count,), generator=generator).float() * drawn()
        done += [left, down]
        matrix = matrix @ _scaling(1 - 2 * left, 1 - 2 * down)
        size = normal()
        done.append(size)
        matrix = matrix @ _scaling(*2 * [2 ** (self.scale * size)])
        turn = (2 * torch.rand(count, generator=generator) - 1) * math.pi * drawn()
        done += [turn.cos() - 1, turn.sin()]
        matrix = matrix @ _rotation(-turn)
        along = (2 * torch.rand(count, generator=generator) - 1) * math.pi
        longer = normal()
        done += [longer * along.cos(), longer * along.sin()]
        factor = 2 ** (self.stretch * longer)
        matrix = matrix @ _rotation(along) @ _scaling(factor, 1 / factor) @ _rotation(-along)
        across, upward = normal(), normal()
        done += [across, upward]
        matrix = matrix @ _shift(2 * self.shift * across, 2 * self.shift * upward)
        labels = torch.stack(done, 1).to(images.device)
        return torch.where(
            labels.any(1)[:, None, None, None], _warped(images, matrix), images
        ), labels


def _warped(images: Tensor, matrix: Tensor) -> Tensor:
    """Each pixel from where the matrix sends it; what lies beyond an edge is mirrored."""
    grid = F.affine_grid(matrix[:, :2].to(images), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def _scaling(across: Tensor, down: Tensor) -> Tensor:
    return torch.diag_embed(torch.stack([across, down, torch.ones_like(across)], 1))


def _rotation(angle: Tensor) -> Tensor:
    matrix = torch.eye(3).repeat(len(angle), 1, 1)
    matrix[:, 0, 0], matrix[:, 0, 1] = angle.cos(), -angle.sin()
    matrix[:, 1, 0], matrix[:, 1, 1] = angle.sin(), angle.cos()
    return matrix


def _shift(across: Tensor, down: Tensor) -> Tensor:
    matrix = torch.eye(3).repeat(len(across), 1, 1)
    matrix[:, 0, 2], matrix[:, 1, 2] = across, down
    return matrix
