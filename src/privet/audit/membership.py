"""Membership inference: was this example among those that a model learned from?

Several models learn from the same examples, of which each is in by a fair coin of its own. Every
model in turn is the target, the others are its shadows: of them the attacker knows all coins. Coins
are independent, so that an attack on models that tell nothing finds nothing, but for chance.

References:
    Carlini et al., Membership Inference Attacks From First Principles, 2022 (LiRA); Yeom et al.,
    Privacy Risk in Machine Learning, 2018 (one threshold); Owen, The Pigeonhole Bootstrap, 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privet.audit.one_run import Coins, Scores
from privet.errors import ConfigError

LOW_RATES = (0.01, 0.001)
"""Of false alarms at which an attack is looked at: what it is sure of is what hurts."""
_LEAST_VARIANCE = 1e-12
_RESAMPLED, _CONFIDENCE = 500, 0.95
_POINTS = 41  # of a curve that is drawn


def likelihood_ratios(confidences: Scores, members: Coins) -> Scores:
    """LiRA: how much likelier a target's confidence is for a member than for anyone else, by log.

    An example's confidence is Gaussian with one mean in models that saw it and another in those
    that did not, both found in the shadows. These are few, so variances are those of all examples
    together. An example that no shadow saw, or that all did, gets the usual gap between both means.

    Args:
        confidences: log(p / (1 - p)) for the true class, (models, examples).
        members: which examples each model learned from.
    """
    if confidences.shape != members.shape or len(members) < 2:
        raise ConfigError("LiRA needs a confidence and a coin of each example in 2 models or more.")
    centred = confidences - confidences.mean(0)  # for the sake of digits alone
    seen, unseen = _Shadows.of(centred, members), _Shadows.of(centred, ~members)
    both = (seen.count > 0) & (unseen.count > 0)
    total = both.sum(1, keepdims=True)
    gaps = np.where(both, seen.mean - unseen.mean, 0.0).sum(1, keepdims=True) / np.maximum(total, 1)
    return seen.log_density(centred, unseen.mean + gaps) - unseen.log_density(
        centred, seen.mean - gaps
    )


@dataclass(frozen=True, eq=False)
class _Shadows:
    """Statistics of shadow models of one kind, for each target and example."""

    count: Scores
    mean: Scores
    variance: Scores

    @classmethod
    def of(cls, values: Scores, chosen: Coins) -> _Shadows:
        """Statistics over all models but the target, with each model in turn as the target."""
        own = chosen.astype(np.float64)

        def others(each: Scores) -> Scores:
            left: Scores = (own * each).sum(0) - own * each
            return left

        count = others(np.ones_like(values))
        mean = others(values) / np.maximum(count, 1)
        squares = others(values**2) - count * mean**2
        freedom = np.maximum(count - 1, 0).sum(1, keepdims=True)
        variance = squares.sum(1, keepdims=True) / np.maximum(freedom, 1)
        return cls(count, mean, np.maximum(variance, _LEAST_VARIANCE))

    def log_density(self, values: Scores, instead: Scores) -> Scores:
        """The log-density of a value around the mean of shadows, or `instead` without any."""
        mean = np.where(self.count > 0, self.mean, instead)
        spread = self.variance * (1 + 1 / np.maximum(self.count, 1))
        density: Scores = -((values - mean) ** 2) / (2 * spread) - np.log(spread) / 2
        return density


@dataclass(frozen=True)
class Allowed:
    """The most that (ε, δ) allows any attack: 1 − miss ≤ e^ε · false alarm + δ, both ways.

    Args:
        epsilon: the ε of the guarantee, to add or remove one example.
        delta: the δ of the guarantee.
    """

    epsilon: float
    delta: float

    def hits(self, false_alarm: float) -> float:
        """The largest rate of members that are found, at a rate of false alarms."""
        upwards = math.exp(self.epsilon) * false_alarm + self.delta
        downwards = 1 - math.exp(-self.epsilon) * (1 - self.delta - false_alarm)
        return min(upwards, downwards, 1.0)

    @property
    def balanced_accuracy(self) -> float:
        """The largest balanced accuracy, which is at the corner of the curve."""
        return 1 - self._corner

    @property
    def area(self) -> float:
        """The largest area under the curve."""
        across = np.array([0.0, self._corner, 1 - self.delta, 1.0])
        return float(np.trapezoid([self.hits(each) for each in across], across))

    @property
    def _corner(self) -> float:
        return (1 - self.delta) / (1 + math.exp(self.epsilon))


@dataclass(frozen=True, eq=False)
class Curve:
    """The curve of an attack: rates of false alarms and of hits, from none to all."""

    false_alarms: Scores
    hits: Scores

    @property
    def area(self) -> float:
        """The area under the curve: how often a member is ranked above another example."""
        return float(np.trapezoid(self.hits, self.false_alarms))

    @property
    def balanced_accuracy(self) -> float:
        """The balanced accuracy at the best threshold."""
        return float((1 + (self.hits - self.false_alarms).max()) / 2)

    def hits_at(self, rate: float) -> float:
        """The rate of hits at that rate of false alarms or less."""
        place = np.searchsorted(self.false_alarms, rate * (1 + 1e-9), side="right") - 1
        return float(self.hits[place])

    def points(self) -> list[tuple[float, float]]:
        """Some points of the curve, evenly spaced on a logarithmic axis."""
        rates = np.geomspace(min(LOW_RATES), 1, _POINTS)
        return [(float(each), self.hits_at(float(each))) for each in rates]

    def figures(self) -> dict[str, float]:
        """The figures that describe the curve, by name."""
        return {
            "auc": self.area,
            "balanced_accuracy": self.balanced_accuracy,
            **{rate_name(rate): self.hits_at(rate) for rate in LOW_RATES},
        }


def rate_name(rate: float) -> str:
    """The name of the figure of hits at a rate of false alarms."""
    return f"hits_at_{rate:g}"


def allowed_figures(allowed: Allowed) -> dict[str, float]:
    """The most that each figure of a curve can be."""
    return {
        "auc": allowed.area,
        "balanced_accuracy": allowed.balanced_accuracy,
        **{rate_name(rate): allowed.hits(rate) for rate in LOW_RATES},
    }


@dataclass(frozen=True)
class Estimate:
    """A figure with an interval.

    Args:
        value: the figure over all models and examples.
        low: the lower end of its interval of 95%.
        high: the upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Attack:
    """Scores of all examples under all targets, the higher the likelier a member.

    Args:
        scores: (models, examples).
        members: which examples are members, (models, examples).
    """

    scores: Scores
    members: Coins

    def __post_init__(self) -> None:
        if self.scores.shape != self.members.shape or not 0 < self.members.mean() < 1:
            raise ConfigError("An attack needs members and others, and a score for each.")

    @property
    def curve(self) -> Curve:
        """The curve over all targets together."""
        return self._curve(np.ones(self.scores.size))

    def estimates(self, rng: np.random.Generator) -> dict[str, Estimate]:
        """Figures with bootstrap intervals: models and examples are resampled, with replacement."""
        drawn = [self._curve(self._weights(rng)).figures() for _ in range(_RESAMPLED)]
        tails = np.array([0.5 - _CONFIDENCE / 2, 0.5 + _CONFIDENCE / 2])
        found = {}
        for name, value in self.curve.figures().items():
            low, high = np.quantile([each[name] for each in drawn], tails)
            found[name] = Estimate(value, min(float(low), value), max(float(high), value))
        return found

    def _weights(self, rng: np.random.Generator) -> Scores:
        models, examples = (
            rng.multinomial(size, np.full(size, 1 / size)) for size in self.scores.shape
        )
        weights: Scores = np.outer(models, examples).ravel().astype(np.float64)
        return weights

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(-self.scores.ravel(), kind="stable")

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """The last place of each run of equal scores, since no threshold lies between them."""
        ranked = self.scores.ravel()[self._order]
        return np.append(np.flatnonzero(np.diff(ranked)), ranked.size - 1)

    @cached_property
    def _is_member(self) -> Coins:
        return self.members.ravel()[self._order]

    def _curve(self, weights: Scores) -> Curve:
        ranked = weights[self._order]

        def rates(chosen: Coins) -> Scores:
            found = np.cumsum(np.where(chosen, ranked, 0.0))[self._ends]
            return np.append(0.0, found / max(found[-1], 1e-300))

        return Curve(rates(~self._is_member), rates(self._is_member))
