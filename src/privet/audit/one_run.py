"""Many canaries in one run: each is in or out by a fair coin, and someone guesses which.

Let T be guesses made of the output alone, and q = e^ε / (1 + e^ε). Reveal the coins one after the
other. Where (ε, 0) holds, the posterior of a coin, given T and the coins before it, lies between
1 − q and q, so that right guesses are no more than W ~ Binomial(r, q). Where (ε, δ) holds, they are
no more than W + F, for F exceptions of which 2 m δ are expected at most among m canaries, and

    P[at least v of r guesses are right] ≤ P[W ≥ v] + 2 m δ · max_i P[v > W ≥ v − i] / i.

References:
    Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, 2023, Theorem 5.2 and
    Corollary 5.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privet.errors import ConfigError

_MOST, _TOLERANCE = 20.0, 1e-3

Scores = NDArray[np.float64]
Coins = NDArray[np.bool_]


@dataclass(frozen=True)
class Guesses:
    """The outcome of guessing which canaries are in.

    Args:
        right: the number of right guesses.
        made: the number of guesses.
        canaries: the number of canaries, those without a guess included.
    """

    right: int
    made: int
    canaries: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries:
            raise ConfigError(
                f"{self.right} right of {self.made} guesses about {self.canaries} canaries cannot "
                "be: count again."
            )


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of so many right guesses where (ε, δ) holds."""
    from scipy.stats import binom

    q, v = 1 / (1 + math.exp(-epsilon)), guesses.right
    fewer = np.arange(1, v + 1)
    tail = float(binom.sf(v - 1, guesses.made, q))
    between = binom.sf(v - fewer - 1, guesses.made, q) - tail
    worst = float((between / fewer).max(initial=0.0))
    return min(1.0, tail + 2 * guesses.canaries * delta * worst)


def one_run_bound(guesses: Guesses, delta: float, error: float) -> float:
    """An ε that is ruled out, but for a probability of `error`; 0 if none is.

    Whoever satisfies a smaller ε satisfies this one too, so all smaller ones are ruled out with it.
    """
    low, high = 0.0, _MOST
    if p_value(guesses, low, delta) > error:
        return 0.0
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(guesses, middle, delta) <= error else (low, middle)
    return low


def guess(scores: Scores, coins: Coins, made: int) -> Guesses:
    """Guess "in" for the highest scores and "out" for the lowest, half of the guesses each."""
    order = np.argsort(np.nan_to_num(scores), kind="stable")
    low = made // 2
    high = made - low
    right = int((~coins[order[:low]]).sum() + coins[order[len(order) - high :]].sum())
    return Guesses(right, made, len(coins))


def best_bound(
    readings: Sequence[Scores],
    coins: Coins,
    delta: float,
    error: float,
    shares: Sequence[float] = (1 / 16, 1 / 4, 1.0),
) -> tuple[float, Guesses]:
    """The best bound over several scores and numbers of guesses, which share one error.

    Args:
        readings: scores of all canaries, one for each way to read the output.
        coins: which canaries are in.
        delta: the δ of the claim.
        error: the probability that any of the bounds is wrong.
        shares: the shares of canaries to guess about.
    """
    made = [max(1, round(share * len(coins))) for share in shares]
    tries = [guess(scores, coins, count) for scores in readings for count in made]
    found = [(one_run_bound(each, delta, error / len(tries)), each) for each in tries]
    return max(found, key=lambda pair: pair[0])
