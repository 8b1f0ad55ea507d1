"""Crops that grow smaller while synthetic images take shape: views that pixels learn through."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from privet.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class CropCurriculum:
    """One view of each image: a random crop enlarged to the image's size, sometimes mirrored.

    From easy to hard, as in the linear schedule of CDA (Yin & Shen, 2023): the area of a crop is
    uniform between a least share of the image and all of it, and that least share falls in a
    straight line from 1 at the start of a run to `smallest` at its end. The first steps settle the
    outlines of whole images, later ones refine their parts.

    Rows and columns of a crop are interpolated by a matrix each, so that views are differentiable
    and cost two small products.

    Guarantees:
        A view depends on its own image and on the generator alone.

    Args:
        smallest: the least share of an image's area in a crop at the end; 0.3 in SPS (appendix
            D.2), 0.08 in CDA.
        flip: mirror a view left to right with probability 1/2.
        stretch: the largest ratio of a crop's sides, relative to the image's; 1 keeps its shape.
    """

    smallest: float = 0.3
    flip: bool = True
    stretch: float = 4 / 3

    def __post_init__(self) -> None:
        if not 0 < self.smallest <= 1:
            raise ConfigError(f"smallest is {self.smallest}; give a share above 0, at most 1.")
        if not 1 <= self.stretch < float("inf"):
            raise ConfigError(f"stretch is {self.stretch}; give a ratio of 1 or more.")

    def __call__(self, images: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        """Views of images (N, C, H, W), in the same shape, after a share `progress` of a run."""
        if not 0 <= progress <= 1:
            raise ConfigError(f"progress is {progress}; give a share from 0 to 1.")
        if images.ndim != 4 or not images.is_floating_point():
            raise ConfigError(
                f"images are {images.dtype} of shape {tuple(images.shape)};"
                " give floats of shape (N, C, H, W)."
            )
        height, width = self._sides(len(images), progress, generator)
        rows = _weights(images.shape[2], height, generator).to(images)
        columns = _weights(images.shape[3], width, generator).to(images)
        if self.flip:
            mirrored = _uniform(len(images), generator).to(images.device) < 0.5
            columns = torch.where(mirrored[:, None, None], columns.flip(1), columns)
        return rows[:, None] @ images @ columns[:, None].mT

    def _sides(
        self, count: int, progress: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Heights and widths of crops, as shares of the image's: neither is above 1."""
        least = 1 + (self.smallest - 1) * progress
        area = least + (1 - least) * _uniform(count, generator)
        most = area.log().neg().clamp(max=log(self.stretch))
        ratio = most * (2 * _uniform(count, generator) - 1)
        return (area.log() + ratio).div(2).exp(), (area.log() - ratio).div(2).exp()


def _weights(side: int, share: Tensor, generator: torch.Generator) -> Tensor:
    """For each pixel along a view (N, side, side), the weights of pixels along the image."""
    first = side * (1 - share) * _uniform(len(share), generator)
    pixel = torch.arange(side, device=share.device)
    centre = first[:, None] + share[:, None] * (pixel + 0.5) - 0.5
    return (1 - (centre.clamp(0, side - 1)[..., None] - pixel).abs()).clamp(min=0)


def _uniform(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator, device=generator.device)
