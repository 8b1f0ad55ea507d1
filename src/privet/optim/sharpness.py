"""Gradients from the worst weights near by, so that training ends where the loss is flat.

References:
    Foret et al., Sharpness-Aware Minimization, 2021 (SAM); Kwon et al., ASAM, 2021; Zhuang et al.,
    Surrogate Gap Minimization, 2022 (GSAM).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from privet.errors import ConfigError
from privet.optim.directions import asam_direction, sam_direction

Gradient = Callable[[], dict[str, Tensor]]
"""The loss's gradient at the model's present weights."""


@dataclass(frozen=True, kw_only=True)
class Sharpness:
    """How far to look for higher losses, and which gradient to take there.

    Args:
        kind: `sam` along the gradient; `asam` further where weights are large; `gsam` like `sam`,
            but without climbing back what the loss itself fell.
        radius: ρ, how far to look; IDS warms up with 0.1.
        alpha: for GSAM, how much of the loss's own gradient, across the other, is taken away.
        least_radius: ρ at a learning rate of 0, from where it grows with the rate; `None` keeps ρ.
    """

    kind: Literal["sam", "asam", "gsam"] = "sam"
    radius: float = 0.1
    alpha: float = 0.4
    least_radius: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("sam", "asam", "gsam"):
            raise ConfigError(f"sharpness is {self.kind!r}; give 'sam', 'asam' or 'gsam'.")
        if not 0 <= self.radius < math.inf or not 0 <= self.alpha < math.inf:
            raise ConfigError("radius and alpha of sharpness must be 0 or more.")
        if self.least_radius is not None and not 0 <= self.least_radius <= self.radius:
            raise ConfigError("least_radius of sharpness must lie between 0 and radius.")

    def at(self, share: float) -> Sharpness:
        """These settings at a share of the highest learning rate (GSAM, section 4.1)."""
        if self.least_radius is None:
            return self
        radius = self.least_radius + share * (self.radius - self.least_radius)
        return replace(self, radius=radius, least_radius=None)

    def gradient(
        self, model: nn.Module, here: Mapping[str, Tensor], again: Gradient
    ) -> dict[str, Tensor]:
        """The gradient that a step follows, taken at the worst weights near by.

        Args:
            model: the model at its own weights, which it has again afterwards.
            here: its gradient at these weights, by parameter.
            again: computes the gradient once more, of the same examples.
        """
        weights = {name: each for name, each in model.named_parameters() if name in here}
        direction = asam_direction if self.kind == "asam" else sam_direction
        with _moved(weights, direction(weights, here, self.radius)), _statistics_kept(model):
            there = again()
        if self.kind != "gsam":
            return there
        along = _dot(here, there) / max(_dot(there, there), 1e-30)
        return {
            name: each - self.alpha * (here[name] - along * each) for name, each in there.items()
        }


def _dot(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    return math.fsum(float((each * second[name]).sum()) for name, each in first.items())


@contextmanager
def _moved(weights: Mapping[str, nn.Parameter], away: Mapping[str, Tensor]) -> Iterator[None]:
    before = {name: each.data for name, each in weights.items()}
    try:
        for name, each in weights.items():
            each.data = before[name] + away[name]
        yield
    finally:
        for name, each in weights.items():
            each.data = before[name]  # exactly: nothing drifts


@contextmanager
def _statistics_kept(model: nn.Module) -> Iterator[None]:
    """Keep running statistics as they are during a pass at moved weights."""
    norms = [each for each in model.modules() if isinstance(each, _NormBase)]
    momenta = [each.momentum for each in norms]
    counts = [each.num_batches_tracked for each in norms]
    try:
        for each in norms:
            each.momentum = 0.0
            if each.num_batches_tracked is not None:
                each.num_batches_tracked = each.num_batches_tracked.clone()
        yield
    finally:
        for each, momentum, count in zip(norms, momenta, counts, strict=True):
            each.momentum, each.num_batches_tracked = momentum, count


def gradient_of(loss: Tensor, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The gradient of a loss by parameter; zero where the loss does not depend on one."""
    found = torch.autograd.grad(
        loss, list(parameters.values()), allow_unused=True, materialize_grads=True
    )
    return dict(zip(parameters, found, strict=True))
