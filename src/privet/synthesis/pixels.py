"""Images whose pixels are optimised to match a release (SPS, Algorithms 4 and 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.synthesis.matching import Matching

OnStep = Callable[[int, float], None]


@dataclass(frozen=True, kw_only=True)
class PixelOptimisation:
    """How the pixels of a batch are optimised; the defaults are those of SPS (D.2).

    Args:
        iterations: steps of Adam.
        learning_rate: at the start; it falls along a cosine.
        betas: the decay rates of Adam.
        range_penalty: the weight of squared distances to the permitted range.
        view: the random view of the images that each step matches.
    """

    iterations: int = 1000
    learning_rate: float = 0.25
    betas: tuple[float, float] = (0.5, 0.9)
    range_penalty: float = 1.0
    view: CropCurriculum = field(default_factory=CropCurriculum)

    def __post_init__(self) -> None:
        if self.iterations < 1 or not self.learning_rate > 0 or not self.range_penalty >= 0:
            raise ConfigError("Pixels need iterations, a learning rate and no negative penalty.")


def optimised(
    start: Tensor,
    labels: Tensor,
    matching: Matching,
    config: PixelOptimisation,
    *,
    generator: torch.Generator,
    on_step: OnStep | None = None,
) -> Tensor:
    """Optimise the pixels of a batch of images (N, C, H, W) in [-1, 1].

    Args:
        start: noise, or the images of an earlier stage.
        labels: the class of each image.
        matching: the loss of images and labels.
        config: how long, how fast and through which views.
        generator: of the random views.
        on_step: called with the number of steps done and the loss.
    """
    pixels = start.clone().requires_grad_()
    adam = torch.optim.Adam([pixels], lr=config.learning_rate, betas=config.betas, fused=True)
    for step in range(config.iterations):
        progress = step / config.iterations
        adam.param_groups[0]["lr"] = config.learning_rate * (1 + math.cos(math.pi * progress)) / 2
        views = config.view(pixels, progress, generator)
        outside = (pixels.abs() - 1).clamp(min=0).square().mean()
        loss = matching(views, labels) + config.range_penalty * outside
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(f"The distance is {value} in step {step}: lower the learning rate.")
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        if on_step is not None:
            on_step(step + 1, value)
    return pixels.detach().clamp(-1, 1)
