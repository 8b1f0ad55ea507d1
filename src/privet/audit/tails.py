"""From errors that were counted to an ε that they rule out. Numbers alone, nothing of the hedge.

Someone sees an output and says whether a row was in. False alarms and misses are counted over runs
that are independent of how the rule was chosen; their rates are bounded from above by Clopper and
Pearson. Whoever is (ε, δ)-private forces every rule to err:

    1 − miss ≤ e^ε · false alarm + δ     and     1 − false alarm ≤ e^ε · miss + δ

References:
    Kairouz, Oh and Viswanath 2015 (the inequalities); Jagielski, Ullman and Oprea 2020, Nasr et al.
    2021 (audits by Clopper and Pearson); Dong, Roth and Su 2022, Nasr et al., Tight
    auditing, 2023 (trade-off curves: a rule that errs little anywhere on the curve tells how much
    noise there is).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privet.errors import ConfigError
from privet.privacy import PLD, Plan, Relation, gaussian
from privet.privacy.accountants import compose

_DELTAS = (0.4, 0.2, 0.1, 0.03, 1e-2, 1e-3, 1e-4, 1e-5)  # where a curve is looked at
_TOLERANCE = 1.01  # of a noise multiplier, on the side of more of it
_LEAST_NOISE, _MOST_NOISE = 0.2, 64.0

Numbers = NDArray[np.float64]
PlanAt = Callable[[float], Plan]
"""What a recipe does to private rows, at any noise multiplier."""


@dataclass(frozen=True)
class Errors:
    """How often a rule errs; or many rules, each by its place.

    Args:
        false_alarm: the rate of saying that the row is in when it is not.
        miss: the rate of saying that it is not in when it is.
    """

    false_alarm: Numbers
    miss: Numbers

    @property
    def swapped(self) -> Errors:
        """The errors of the opposite rule about the opposite question."""
        return Errors(self.miss, self.false_alarm)


def rate_bound(counts: Numbers, trials: int, error: float) -> Numbers:
    """Upper bounds on rates, each below its rate with at most the given probability."""
    from scipy.stats import beta

    if trials < 1 or not ((counts >= 0) & (counts <= trials)).all():
        raise ConfigError(f"Counts of {trials} runs lie between 0 and {trials}: give some runs.")
    missing = np.maximum(trials - counts, 1e-9)  # the quantile of all is 1
    bounds: Numbers = beta.isf(error, counts + 1, missing)
    return np.where(counts == trials, 1.0, bounds)


def epsilon_bound(errors: Errors, delta: float) -> Numbers:
    """The least ε that allows errors as small as these, whatever the mechanism."""

    def one_way(each: Errors) -> Numbers:
        gain = np.maximum(1 - each.miss - delta, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(gain > 0, np.log(gain) - np.log(each.false_alarm), 0.0)

    best: Numbers = np.maximum(one_way(errors), one_way(errors.swapped))
    return np.maximum(best, 0.0)


def mu_of(errors: Errors) -> Numbers:
    """The least μ whose Gaussian trade-off curve allows errors as small as these."""
    from scipy.stats import norm

    mu: Numbers = norm.isf(errors.false_alarm) - norm.ppf(errors.miss)
    return np.where(errors.false_alarm + errors.miss < 1, mu, 0.0)


def gaussian_bound(wrong: float, delta: float) -> float:
    """ε of the least μ whose Gaussian trade-off curve allows to order so many pairs right.

    Of two outputs, one with the row and one without, a statistic says which is which. The share
    that it gets right is the area above its trade-off curve, for a Gaussian one Φ(μ / √2) at most.

    Args:
        wrong: an upper bound on the share that it gets wrong.
        delta: where ε is wanted.
    """
    from scipy.stats import norm

    mu = math.sqrt(2) * float(norm.isf(wrong))
    return gaussian.epsilon(1 / mu, delta) if 0 < mu < math.inf else max(mu, 0.0)


def curve_bound(errors: Errors, delta: float, plan_at: PlanAt, relation: Relation) -> float:
    """ε of the plan with the least noise whose own trade-off curve rules such errors out.

    There is less noise than that, if all else is as planned. So it is far tighter than
    `epsilon_bound`; a recipe whose errors lie below its plan's curve does not do what it says.
    """

    def ruled_out(sigma: float) -> bool:
        events = plan_at(sigma).events
        return any(
            epsilon_bound(errors, each) > PLD().epsilon(events, each, relation) for each in _DELTAS
        )

    low, high = _LEAST_NOISE, _MOST_NOISE
    if not ruled_out(high):
        return 0.0
    if ruled_out(low):
        high = low
    while high / low > _TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if ruled_out(middle) else (middle, high)
    return PLD().epsilon(plan_at(high).events, delta, relation)


def is_gaussian(plan_at: PlanAt) -> bool:
    """Whether the plan's own trade-off curve is Gaussian: all sums are over all rows."""
    return not compose(plan_at(1.0).events).poisson
