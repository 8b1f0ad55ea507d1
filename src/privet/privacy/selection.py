"""What the best of a random number of trials costs, of which nothing else is shown.

Trials are independent and of one law: each draws a candidate, trains it and is judged by what left
the hedge and by rows that are not private. Of K trials the best one is kept, the first one among
equals. Its whole course may be shown, and neither K nor any other trial.

Formal guarantee:
    If Q, one trial, has Rényi divergences ε(λ) between neighbours in both directions, then the best
    of K trials has

        ε(λ) + c + log E[K] / (λ − 1),   where

        c = (1 + η) · min over λ̂ of (1 − 1/λ̂) ε(λ̂) + log(1/γ) / λ̂   for the truncated negative
            binomial law of shape η > −1 (Theorem 2),
        c = μ · δ̂   for Poisson's law, with δ̂ of Q at ε̂ = log(1 + 1/(λ − 1)) (Theorem 6).

    Theorem 6 has a K that may be 0. Here 0 is left out: f′ of its proof, and E[K], are then those
    of Poisson's law over 1 − e^(−μ), and no outcome is left that the bound would not cover. The
    proofs are in docs/tuning.md.

References:
    Papernot and Steinke, Hyperparameter Tuning with Rényi Differential Privacy, 2022.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta
from numpy.typing import NDArray

from privet.privacy.trials import Law, Trials

Curve = NDArray[np.float64]


def best_of(trials: Trials, orders: Curve, one: Curve) -> Curve:
    """Rényi divergences of the best of a random number of trials.

    Args:
        trials: the law of the number of trials.
        orders: Rényi orders above 1, rising.
        one: the divergences of one trial at these orders.
    """
    poisson = trials.law is Law.POISSON
    constant = (_poisson if poisson else _negative_binomial)(trials, orders, one)
    found = one + constant + math.log(trials.expected) / (orders - 1)
    # A divergence is at most that of a higher order.
    return np.asarray(np.minimum.accumulate(found[::-1])[::-1])


def _negative_binomial(trials: Trials, orders: Curve, one: Curve) -> Curve:
    shape = 1 if trials.law is Law.GEOMETRIC else 0
    each = (1 - 1 / orders) * one - math.log(trials.parameter) / orders
    return np.full_like(orders, (1 + shape) * each.min())


def _poisson(trials: Trials, orders: Curve, one: Curve) -> Curve:
    shares = [compute_delta(orders, one, math.log1p(1 / (order - 1)))[0] for order in orders]
    return np.asarray(trials.parameter * np.array(shares))
