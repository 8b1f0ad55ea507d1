"""Pad-and-crop, mirror and cutout: several independent views of every image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from privet.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class CropFlip:
    """Views of each image, every one shifted, mirrored and cut by its own draws.

    Guarantees:
        A view depends on its own image and on the generator alone.

    Args:
        padding: the furthest shift, in pixels, up, down, left and right.
        flip: mirror a view left to right with probability 1/2.
        cutout: the side of a square that is set to 0, its centre on any pixel (DeVries & Taylor,
            2017), so that it may reach over the edge; 0 for none.
        mode: what lies beyond the edge: the reflected image, or 0.
        invert: turn light into dark with probability 1/2, for encoders of grey images.
    """

    padding: int = 4
    flip: bool = True
    cutout: int = 0
    mode: Literal["reflect", "constant"] = "reflect"
    invert: bool = False

    def __post_init__(self) -> None:
        for name, value in (("padding", self.padding), ("cutout", self.cutout)):
            if value < 0:
                raise ConfigError(f"{name} is {value}; give a number of pixels from 0 upwards.")
        if self.mode not in ("reflect", "constant"):
            raise ConfigError(f"mode is {self.mode!r}; give 'reflect' or 'constant'.")

    def __call__(self, images: Tensor, num_views: int, generator: torch.Generator) -> Tensor:
        """Turn (N, C, H, W) into (N · num_views, C, H, W), the views of one image adjacent."""
        self._check(images, num_views)
        if self.padding or self.flip:
            views = self._shifted(images, num_views, generator)
        else:
            views = images if num_views == 1 else images.repeat_interleave(num_views, dim=0)
        if self.invert:
            views = views * (1 - 2 * _draw(2, len(views), generator).to(views))[:, None, None, None]
        return views * self._kept(views, generator) if self.cutout else views

    def _check(self, images: Tensor, num_views: int) -> None:
        if num_views < 1:
            raise ConfigError(f"num_views is {num_views}; give 1 or more.")
        if images.ndim != 4:
            raise ConfigError(
                f"images have shape {tuple(images.shape)}; give (N, C, H, W), or no augmentation."
            )
        side = min(images.shape[2:])
        if self.mode == "reflect" and self.padding >= side:
            raise ConfigError(
                f"padding is {self.padding}; give at most {side - 1} for these images, "
                "or mode='constant'."
            )
        if self.cutout > side:
            raise ConfigError(f"cutout is {self.cutout}; give at most {side} for these images.")

    def _shifted(self, images: Tensor, num_views: int, generator: torch.Generator) -> Tensor:
        """Shifted and mirrored views: windows of the padded image and of its mirror image."""
        padded = F.pad(images, (self.padding,) * 4, mode=self.mode)
        sides = [padded, padded.flip(-1)] if self.flip else [padded]
        height, width = images.shape[2:]
        windows = torch.stack(sides, dim=1).unfold(3, height, 1).unfold(4, width, 1)
        count = len(images) * num_views
        image = torch.arange(len(images), device=images.device).repeat_interleave(num_views)
        side = _draw(len(sides), count, generator).to(images.device)
        down = _draw(2 * self.padding + 1, count, generator).to(images.device)
        right = _draw(2 * self.padding + 1, count, generator).to(images.device)
        return windows[image, side, :, down, right]

    def _kept(self, views: Tensor, generator: torch.Generator) -> Tensor:
        """A mask (views, 1, H, W) that is false inside the cut-out square."""
        count, _, height, width = views.shape
        rows = self._covered(height, count, generator).to(views.device)
        columns = self._covered(width, count, generator).to(views.device)
        return ~(rows[:, None, :, None] & columns[:, None, None, :])

    def _covered(self, side: int, count: int, generator: torch.Generator) -> Tensor:
        first = _draw(side, count, generator)[:, None] - self.cutout // 2
        pixel = torch.arange(side, device=first.device)
        return (pixel >= first) & (pixel < first + self.cutout)


def _draw(below: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(below, (count,), generator=generator, device=generator.device)
