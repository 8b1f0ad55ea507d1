"""An exponential moving average of weights, kept in a plain dict of tensors.

References:
    De et al., 2022, "Unlocking High-Accuracy Differentially Private Image Classification through
    Scale": decay 0.9999, warmed up so that the first weights are soon forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from privet.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ExponentialAverage:
    """The decay of a moving average; the average itself is kept by the caller."""

    decay: float = 0.9999

    def __post_init__(self) -> None:
        _check_decay(self.decay)

    def start(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The average before the first update: a copy of the weights."""
        return {name: weight.detach().clone() for name, weight in weights.items()}

    def update(self, average: dict[str, Tensor], weights: Mapping[str, Tensor], step: int) -> None:
        """Move the average, in place, towards the weights after update number `step`, from 0."""
        update_average(average, weights, step, self.decay)


def update_average(
    average: dict[str, Tensor], weights: Mapping[str, Tensor], step: int, decay: float
) -> None:
    """Set average to d · average + (1 - d) · weights, in place, d = min(decay, (1 + t)/(10 + t)).

    What is not a floating-point number, such as a count of batches, is copied.
    """
    _check_decay(decay)
    if step < 0:
        raise ConfigError(f"step is {step}; count updates from 0.")
    if average.keys() != weights.keys():
        odd = sorted(average.keys() ^ weights.keys())
        raise ConfigError(f"average and weights differ in {odd}; start a new average.")
    share = 1 - min(decay, (1 + step) / (10 + step))
    with torch.no_grad():
        for name, mean in average.items():
            _move(mean, weights[name].to(mean.device), share)


def _move(mean: Tensor, weight: Tensor, share: float) -> None:
    if mean.is_floating_point():
        mean.lerp_(weight.to(mean.dtype), share)
    else:
        mean.copy_(weight)


def _check_decay(decay: float) -> None:
    if not 0 <= decay < 1:
        raise ConfigError(f"decay is {decay:g}; give a number from 0 to below 1, such as 0.9999.")
