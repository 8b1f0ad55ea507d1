"""How many trials there are, of which the best is kept: a random number with a known law.

Whoever knows the number itself, beside the best result, learns more than the law allows for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from privet.errors import ConfigError

_MOST = 1000.0
_LONGEST_DRAW = 10**7


class Law(StrEnum):
    """The law of the number of trials, which is at least 1.

    Logarithmic and geometric are the truncated negative binomial laws of shape η = 0 and 1. The
    Poisson law is without its zero, so that there is always a result.
    """

    LOGARITHMIC = "logarithmic"
    GEOMETRIC = "geometric"
    POISSON = "poisson"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """How many trials there are: a law and its mean."""

    law: Law
    mean: float

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "law", Law(self.law))
            object.__setattr__(self, "mean", float(self.mean))
        except ValueError:
            raise ConfigError(f"{self.law!r}, {self.mean!r} is no law of trials.") from None
        if not 1 < self.mean <= _MOST:
            raise ConfigError(
                f"The mean number of trials must be above 1 and at most {_MOST:g}, not "
                f"{self.mean:g}."
            )

    @property
    def parameter(self) -> float:
        """γ of a truncated negative binomial law, or μ of Poisson's."""
        if self.law is Law.GEOMETRIC:
            return 1 / self.mean
        if self.law is Law.LOGARITHMIC:
            return math.exp(_solved(lambda x: _logarithmic_mean(math.exp(x)), self.mean, -40, 0))
        return _solved(lambda x: -_poisson_mean(x), -self.mean, 0, self.mean)

    @property
    def expected(self) -> float:
        """E[K], the mean number of trials under the law with exactly this parameter."""
        if self.law is Law.GEOMETRIC:
            return 1 / self.parameter
        mean = _logarithmic_mean if self.law is Law.LOGARITHMIC else _poisson_mean
        return mean(self.parameter)

    def probabilities(self) -> Iterator[float]:
        """Yield the probability of 1 trial, of 2 trials and so on."""
        value = self.parameter
        if self.law is Law.POISSON:
            some = -math.expm1(-value)  # of a Poisson number, which may be 0
            for number in range(1, _LONGEST_DRAW):
                logarithm = number * math.log(value) - value - math.lgamma(number + 1)
                yield math.exp(logarithm) / some
            return
        geometric = self.law is Law.GEOMETRIC
        chance = value if geometric else (1 - value) / -math.log(value)
        for number in range(1, _LONGEST_DRAW):
            yield chance
            chance *= (1 - value) * (1 if geometric else number / (number + 1))

    def draw(self, random: Random) -> int:
        """Draw a number of trials; its law is exact but for the rounding of a uniform number.

        That is less than 1e-12 in probability, far below every δ that anyone asks for.
        """
        left = random.random()
        for number, chance in enumerate(self.probabilities(), 1):
            left -= chance
            if left < 0 or (chance == 0 and number > self.mean):
                return number
        return _LONGEST_DRAW

    def __str__(self) -> str:
        return f"{self.law}, {self.mean:g} on average"


def _logarithmic_mean(gamma: float) -> float:
    return (1 / gamma - 1) / -math.log(gamma)


def _poisson_mean(mu: float) -> float:
    return mu / -math.expm1(-mu)


def _solved(falling: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The place strictly between two ends where a falling function takes a value."""
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if falling(middle) > target else (low, middle)
    return (low + high) / 2
