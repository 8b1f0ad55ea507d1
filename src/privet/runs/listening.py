"""Who is told what a run does while it does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Listener(Protocol):
    """Whoever started a run, and follows it."""

    def note(self, sentence: str) -> None:
        """Hear something worth a line."""

    def progress(self, name: str) -> Callable[[int, int], None]:
        """Give a function that hears how much of how much is done of the part with this name."""


@dataclass(frozen=True, kw_only=True)
class News:
    """A training step that is done.

    Args:
        step: its number, from 1.
        total: how many steps there will be.
        epsilon: an upper bound on what was spent so far.
        target: what will have been spent at the end.
        rows_per_second: expected rows over mean time; None before the first step.
    """

    step: int
    total: int
    epsilon: float
    target: float
    rows_per_second: float | None


class StepListener(Listener, Protocol):
    """A listener that follows private steps as well."""

    def step(self, news: News) -> None:
        """Hear that a step is done."""

    def stopping(self) -> None:
        """Hear that Ctrl-C was noticed; called between any two instructions."""


class Silent:
    """A listener that ignores everything."""

    def note(self, sentence: str) -> None:
        """Ignore it."""

    def progress(self, name: str) -> Callable[[int, int], None]:
        """Give a function that ignores it."""
        return lambda done, total: None

    def step(self, news: News) -> None:
        """Ignore it."""

    def stopping(self) -> None:
        """Ignore it."""
