"""Times of several runs that take turns, and their ratios."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = Callable[[], Any]
FEWEST_ROUNDS = 2


@dataclass(frozen=True)
class Seconds:
    """How long each run took, round by round."""

    rounds: dict[str, list[float]]

    def of(self, name: str) -> float:
        """The median."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, base: str) -> float:
        """The median of the rounds' ratios."""
        pairs = zip(self.rounds[name], self.rounds[base], strict=True)
        return statistics.median(one / other for one, other in pairs)

    def ratio_of_bests(self, name: str, base: str) -> float:
        """Of each one's fastest rounds: who else uses the machine only adds time.

        The mean of three, since the one fastest of all is a matter of luck.
        """
        return self._fast(name) / self._fast(base)

    def _fast(self, name: str) -> float:
        return statistics.mean(sorted(self.rounds[name])[:3])


def timed(runs: dict[str, Run], rounds: int, budget: float = math.inf) -> Seconds:
    """Each once to warm up, then in turn; no new round after the second when the budget is used up.

    So a slow machine gives fewer rounds in the same time.
    """
    begin = time.perf_counter()
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and time.perf_counter() - begin > budget:
            break
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return Seconds(seconds)
