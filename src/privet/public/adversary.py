"""Adversarial views for training on public images (Madry et al., 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from privet.errors import ConfigError

LossOf = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """Projected gradient ascent on pixels in [-1, 1].

    Args:
        radius: how far a pixel may move, as a share of its range: 2/255 or 8/255.
        steps: the number of steps of ascent.
        stride: the length of a step, as a share of the radius.
    """

    radius: float = 2 / 255
    steps: int = 10
    stride: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.radius <= 1 or self.steps < 1 or not 0 < self.stride < math.inf:
            raise ConfigError(
                "An adversary has a radius from 0 to 1, one step or more, and a stride above 0."
            )

    def __call__(self, images: Tensor, loss: LossOf, generator: torch.Generator) -> Tensor:
        """Move images to a higher loss, from a random start within the radius."""
        radius = 2 * self.radius  # pixels go from -1 to 1
        start = 2 * torch.rand(images.shape, generator=generator).to(images) - 1
        x = (images + radius * start).clamp(-1, 1)
        for _ in range(self.steps):
            x.requires_grad_()
            [slope] = torch.autograd.grad(loss(x), [x])
            x = x.detach() + self.stride * radius * slope.sign()
            x = torch.minimum(torch.maximum(x, images - radius), images + radius).clamp(-1, 1)
        return x.detach()
