"""Ctrl-C, kept waiting where it would lose what was paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from privet.hedge import Blocks, Summand, Units

LetThrough = Callable[[], None]


@contextmanager
def undisturbed() -> Iterator[LetThrough]:
    """Ctrl-C waits until the end, or until what is given here is called."""
    pressed: list[int] = []

    def let_through() -> None:
        if pressed:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield let_through  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield let_through
    finally:
        signal.signal(signal.SIGINT, before)
    let_through()


@dataclass(frozen=True)
class Stoppable:
    """A summand that lets Ctrl-C through before every batch: nothing is spent until the last.

    Args:
        summand: what is summed.
        let_through: raises if someone pressed Ctrl-C.
    """

    summand: Summand
    let_through: LetThrough

    def zeros(self) -> Blocks:
        """Of the summand."""
        return self.summand.zeros()

    def norms(self, units: Units) -> Tensor:
        """Of the summand."""
        self.let_through()
        return self.summand.norms(units)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Of the summand."""
        return self.summand.weighted_sum(units, weights)
