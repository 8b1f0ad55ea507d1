"""From a target ε to the noise that meets it, and to the number of events that fits.

Formal guarantee: what is returned was itself evaluated by the accountant and found within the
target. It is never extrapolated, so it cannot overshoot.
"""

import math
from collections.abc import Callable, Iterable

from privet.errors import ConfigError, PrivacyError
from privet.privacy import gaussian
from privet.privacy.accountants import PLD, RDP, Accountant, compose
from privet.privacy.allowance import SHARE_OF_DELTA, allowance
from privet.privacy.budget import Budget, Relation
from privet.privacy.events import Plan, PoissonSteps, Selection
from privet.privacy.trials import Trials

_RELATIVE_TOLERANCE = 1e-5
_LEAST_NOISE, _LITTLE_NOISE, _MUCH_NOISE, _MOST_NOISE = 1e-6, 0.01, 64.0, 1e7
_LEAST_COST = 1e-3  # of the target: less is not told apart


def noise_multiplier(
    plan_at: Callable[[float], Plan], budget: Budget, relation: Relation, accountant: Accountant
) -> float:
    """The least noise multiplier whose plan stays within the budget.

    Args:
        plan_at: the plan at a given noise multiplier; its cost must fall as that grows.
        budget: the target ε and δ.
        relation: which data sets are neighbours.
        accountant: computes the cost of a plan.
    """
    exact = _exact_for_releases(plan_at, budget, relation, accountant)
    if exact is not None:
        return exact

    def excess(sigma: float) -> float:
        cost = accountant.epsilon(plan_at(sigma).events, budget.delta, relation)
        return math.log(max(cost / budget.epsilon, _LEAST_COST))

    low, high = _bracket(excess)
    return _false_position(excess, low, high)


def selection(
    shapes: Iterable[tuple[float, int]], trials: Trials, budget: Budget, relation: Relation
) -> Selection:
    """Find trials with the least noise, of which the best one stays within the budget.

    Each candidate gets the noise that it would need if it were the only one. What a trial may do is
    bounded by the worst candidate at every order, which is a little more: all noise is then raised
    by one factor.

    Args:
        shapes: a sampling rate and a number of steps for each candidate.
        trials: the law of their number.
        budget: the target ε and δ of everything together.
        relation: which data sets are neighbours.
    """

    def of(noise: dict[tuple[float, int], float]) -> Selection:
        steps = (
            PoissonSteps(sampling_rate=rate, noise_multiplier=sigma, steps=count)
            for (rate, count), sigma in noise.items()
        )
        return Selection(candidates=tuple(steps), trials=trials)

    def least(plan_at: Callable[[float], Plan]) -> float:
        return noise_multiplier(plan_at, budget, relation, RDP())

    def by_itself(shape: tuple[float, int]) -> float:
        return least(lambda sigma: Plan((of({shape: sigma}),)))

    alone = {each: by_itself(each) for each in sorted({*shapes})}

    def raised(factor: float) -> Selection:
        return of({each: factor * sigma for each, sigma in alone.items()})

    if len(alone) == 1:
        return raised(1.0)
    return raised(least(lambda factor: Plan((raised(factor),))))


def affordable(fits: Callable[[int], bool], most: int) -> int:
    """The largest count up to `most` that fits; 0 if not even one does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _exact_for_releases(
    plan_at: Callable[[float], Plan], budget: Budget, relation: Relation, accountant: Accountant
) -> float | None:
    """The closed form for one-shot releases whose noise all scales alike; else `None`."""
    if not isinstance(accountant, PLD):
        return None
    events = plan_at(1.0).events
    unit = compose(events)
    scaled = compose(plan_at(2.0).events)
    if unit.poisson or not math.isclose(unit.gaussian_precision, 4 * scaled.gaussian_precision):
        return None
    exact = budget.epsilon - allowance(events)
    if exact <= 0:
        return None
    target = gaussian.sigma(exact, budget.delta * (1 - SHARE_OF_DELTA))
    sigma = target * relation.sensitivity * math.sqrt(unit.gaussian_precision)
    for _ in range(8):  # the last digits of floating point
        if accountant.epsilon(plan_at(sigma).events, budget.delta, relation) <= budget.epsilon:
            return sigma
        sigma *= 1 + 1e-12
    return None


def _bracket(excess: Callable[[float], float]) -> tuple[float, float]:
    """Noise multipliers on both sides of the target, a factor of two apart."""
    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high == _MUCH_NOISE and excess(_MOST_NOISE) > 0:
            raise PrivacyError(
                "No amount of noise meets this ε: the part of the plan whose noise is fixed "
                "already costs more."
            )
    low = high / 2
    while (over := excess(low)) <= 0:
        # With a δ above the chance to be sampled, any noise would do, and protect nobody.
        if low < _LEAST_NOISE or (low < _LITTLE_NOISE and over == math.log(_LEAST_COST)):
            raise ConfigError("Almost no noise is needed for this ε and δ: give smaller ones.")
        low, high = low / 2, low
    return low, high


def _false_position(excess: Callable[[float], float], low: float, high: float) -> float:
    """Illinois false position on log-log axes; returns the side that is within the target."""
    y_low, y_high = excess(low), excess(high)
    last = 0
    while high / low > 1 + _RELATIVE_TOLERANCE:
        x_low, x_high = math.log(low), math.log(high)
        x = (x_low * y_high - x_high * y_low) / (y_high - y_low)
        # Stay off the ends, so that both sides of the bracket keep moving.
        margin = 0.25 * _RELATIVE_TOLERANCE
        middle = math.exp(min(max(x, x_low + margin), x_high - margin))
        y = excess(middle)
        if y > 0:
            low, y_low, y_high = middle, y, y_high / 2 if last > 0 else y_high
            last = 1
        else:
            high, y_high, y_low = middle, y, y_low / 2 if last < 0 else y_low
            last = -1
    return high
