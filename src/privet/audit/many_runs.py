"""The same recipe many times, with and without one row: how well can the two be told apart?

A quarter of the runs chooses what to look at and where to draw the line; the others, which nobody
has looked at before, count its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from privet.audit.tails import (
    Errors,
    Numbers,
    PlanAt,
    curve_bound,
    epsilon_bound,
    gaussian_bound,
    is_gaussian,
    mu_of,
    rate_bound,
)
from privet.errors import ConfigError
from privet.privacy import Relation

_LINES = np.linspace(0.005, 0.995, 100)  # quantiles between which lines are drawn
_FEWEST, _TO_CHOOSE = 12, 1 / 4
_LEAST = 1e-12  # variance against the mean square: below it, numbers do not vary

Outputs = Numbers
"""A row per run: everything that it let out."""
Statistic = Callable[[Outputs], Numbers]


@dataclass(frozen=True)
class Arms:
    """The outputs of runs without the row and of runs with it."""

    without: Outputs
    with_row: Outputs

    def __iter__(self) -> Iterator[Outputs]:
        return iter((self.without, self.with_row))

    def split(self, share: float) -> tuple[Arms, Arms]:
        """The first runs of either kind, up to a share, and the others."""
        ends = [round(share * len(each)) for each in self]
        first = (each[:end] for each, end in zip(self, ends, strict=True))
        others = (each[end:] for each, end in zip(self, ends, strict=True))
        return Arms(*first), Arms(*others)


def _errors(statistic: Statistic, lines: Numbers, arms: Arms, error: float) -> Errors:
    """Upper bounds on the errors of rules that say "in" from a line upwards.

    Both bounds of one rule are right but for a probability of `error`.
    """
    below = [np.searchsorted(np.sort(statistic(each)), lines).astype(np.float64) for each in arms]
    return Errors(
        rate_bound(len(arms.without) - below[0], len(arms.without), error / 2),
        rate_bound(below[1], len(arms.with_row), error / 2),
    )


@dataclass(frozen=True)
class ManyRunsBound:
    """Lower bounds on ε at the claimed δ, all of them right but for one probability of error.

    Args:
        epsilon: a bound that holds whatever the mechanism is.
        curve_epsilon: a bound that holds if the recipe does what its plan says, with any noise.
    """

    epsilon: float
    curve_epsilon: float

    @property
    def best(self) -> float:
        """The larger of the two bounds."""
        return max(self.epsilon, self.curve_epsilon)


def many_runs_bound(
    arms: Arms, delta: float, error: float, plan_at: PlanAt, relation: Relation
) -> ManyRunsBound:
    """Bound ε from below in two ways, by how well the runs can be told apart."""
    if min(map(len, arms)) < _FEWEST:
        raise ConfigError(f"An audit of many runs needs {_FEWEST} of either kind: give more.")
    chosen_on, judged_on = arms.split(_TO_CHOOSE)
    statistics = list(_statistics(chosen_on))

    def errors(worth: Callable[[Errors], Numbers]) -> Errors:
        statistic, line = _best_rule(statistics, chosen_on, worth, error)
        return _errors(statistic, np.array(line), judged_on, error / 2)

    found = float(epsilon_bound(errors(lambda each: epsilon_bound(each, delta)), delta))
    if not is_gaussian(plan_at):
        return ManyRunsBound(found, curve_bound(errors(mu_of), delta, plan_at, relation))
    best = min(statistics, key=lambda each: _wrong(each, chosen_on))
    pairs = min(map(len, judged_on))
    wrong = rate_bound(np.array(_wrong(best, judged_on)), pairs, error / 2)
    return ManyRunsBound(found, gaussian_bound(float(wrong), delta))


def _wrong(statistic: Statistic, arms: Arms) -> int:
    """The number of pairs of runs that a statistic does not order right; ties count as wrong."""
    without, with_row = map(statistic, arms)
    pairs = min(len(without), len(with_row))
    return int((with_row[:pairs] <= without[:pairs]).sum())


def _best_rule(
    statistics: list[Statistic], arms: Arms, worth: Callable[[Errors], Numbers], error: float
) -> tuple[Statistic, float]:
    found = []
    for statistic in statistics:
        lines = _lines(statistic, arms)
        worths = worth(_errors(statistic, lines, arms, error))
        best = int(worths.argmax())
        found.append((float(worths[best]), statistic, float(lines[best])))
    _, statistic, line = max(found, key=lambda each: each[0])
    return statistic, line


def _lines(statistic: Statistic, arms: Arms) -> Numbers:
    """Thresholds between values that occur, and one above all."""
    values = np.unique(np.concatenate([statistic(each) for each in arms]))
    values = values[np.isfinite(values)]
    if not len(values):
        return np.zeros(1)
    between = (values[1:] + values[:-1]) / 2
    some = np.quantile(between, _LINES, method="nearest") if len(between) else between
    return np.unique(np.concatenate([some, between[:1], [values[-1] + 1]]))


def _statistics(arms: Arms) -> Iterator[Statistic]:
    """Yield statistics: each number, the distance from the mean, the direction of difference."""
    centre, scale, direction = _differences(arms)

    def coordinate(number: int, sign: float, outputs: Outputs) -> Numbers:
        return sign * outputs[:, number]

    def far(sign: float, outputs: Outputs) -> Numbers:
        distance: Numbers = np.linalg.norm((outputs - centre) / scale, axis=1)
        return sign * distance

    def along(outputs: Outputs) -> Numbers:
        found: Numbers = (outputs - centre) / scale @ direction
        return found

    for sign in (1.0, -1.0):
        for number in range(arms.without.shape[1]):
            yield _loud(partial(coordinate, number, sign))
        yield _loud(partial(far, sign))
    yield _loud(along)


def _differences(arms: Arms) -> tuple[Outputs, Outputs, Outputs]:
    without, with_row = (np.nan_to_num(each, posinf=0.0, neginf=0.0) for each in arms)
    centre = without.mean(0)
    variance = (without.var(0) + with_row.var(0)) / 2
    size = np.square(np.concatenate([without, with_row])).mean(0)
    scale = np.sqrt(np.maximum(variance, _LEAST * size)) + np.finfo(float).tiny
    return centre, scale, (with_row.mean(0) - centre) / scale


def _loud(statistic: Statistic) -> Statistic:
    """Wrap a statistic so that outputs that are not finite count as infinitely striking."""

    def found(outputs: Outputs) -> Numbers:
        with np.errstate(all="ignore"):
            values = statistic(outputs)
        return np.where(np.isfinite(outputs).all(1) & np.isfinite(values), values, np.inf)

    return found
