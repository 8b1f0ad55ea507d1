"""What fitting the public part of some data says of the whole (Theorem 4.1 of IDS).

As printed, the theorem bounds D(data ‖ θ) − D(public ‖ θ). Its proof loses the share r₁ of public
rows before the second term, and random cases lie outside. What the proof shows, and what holds, is
the same bounds for D(data ‖ θ) − r₁ · D(public ‖ θ): of every private row the model must say as
much as it can by itself, whatever it says of the public ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privet.errors import ConfigError

Probabilities = NDArray[np.float64]


def matching_gap(model: Probabilities, num_public: int) -> float:
    """D_KL(data ‖ θ) − r₁ · D_KL(public ‖ θ), of data that are all different.

    Args:
        model: the model's probability of each row, public rows first; their sum is at most 1.
        num_public: how many rows are public.
    """
    _check(model, num_public)
    public = model[:num_public]
    share = num_public / len(model)
    return _divergence(model) - share * _divergence(public)


def matching_bounds(model: Probabilities, num_public: int) -> tuple[float, float]:
    """Bounds on the gap, the closer the more evenly the model knows private rows."""
    _check(model, num_public)
    share = num_public / len(model)
    rest = 1 - share
    least = share * math.log(share) + rest * math.log(rest)
    worst = 1 / ((len(model) - num_public) * float(model[num_public:].min()))  # τ, at least 1
    return least, least + rest * math.log(worst)


def _divergence(model: Probabilities) -> float:
    """The KL divergence from the model of the uniform distribution on these rows."""
    return float(-np.log(len(model) * model).mean())


def _check(model: Probabilities, num_public: int) -> None:
    if not 0 < num_public < len(model):
        raise ConfigError("Some rows must be public, and some private.")
    if not (model > 0).all() or model.sum() > 1 + 1e-9:
        raise ConfigError("A model gives every row a probability above 0, 1 at most in all.")
