"""Times of several runs that take turns, and their ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = Callable[[], Any]


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


def timed(runs: dict[str, Run], rounds: int) -> Seconds:
    """Each once to warm up, then in turn."""
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return Seconds(seconds)
