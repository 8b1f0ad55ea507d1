"""Ctrl-C, kept waiting where it would lose what was paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from privet.hedge import Blocks, Summand, Units

LetThrough = Callable[[], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What Ctrl-C sends, and what a machine sends to end a process."""


@contextmanager
def undisturbed() -> Iterator[LetThrough]:
    """Hold Ctrl-C back until the block ends, or until the function that it is given is called."""
    waiting: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # signals are the main thread's
        return
    before = {
        each: signal.signal(each, lambda number, _: waiting.append(number)) for each in SIGNALS
    }

    def let_through() -> None:
        if waiting:
            restore(before)
            signal.raise_signal(waiting[0])

    try:
        yield let_through
    finally:
        restore(before)
    let_through()


def restore(handlers: Mapping[signal.Signals, Any]) -> None:
    """Put signal handlers back as they were."""
    for number, handler in handlers.items():
        signal.signal(number, handler or signal.SIG_DFL)


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
        """Return the summand's zeros."""
        return self.summand.zeros()

    def norms(self, units: Units) -> Tensor:
        """Let Ctrl-C through, then return the summand's norms."""
        self.let_through()
        return self.summand.norms(units)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Return the summand's weighted sum."""
        return self.summand.weighted_sum(units, weights)
