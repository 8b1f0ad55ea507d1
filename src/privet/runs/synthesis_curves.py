"""Losses of a synthesis on their way into the run's metrics."""

from __future__ import annotations

import math
from collections.abc import Callable

from privet.runs.listening import Listener
from privet.runs.run_metrics import Metrics

_MOST_LINES = 100  # of one training


class Recorded:
    """A listener that passes everything on, while losses are written down."""

    def __init__(self, listener: Listener, metrics: Metrics) -> None:
        self._listener, self._metrics = listener, metrics

    def note(self, sentence: str) -> None:
        """Pass a sentence on."""
        self._listener.note(sentence)

    def progress(self, name: str) -> Curve:
        """Make what hears the steps and the losses of one part of a run."""
        return Curve(name, self._metrics, self._listener.progress(name))


class Curve:
    """Losses of one part of a run, in which there may be a training after another.

    They are those of images against what left the hedge, or of public images.

    Args:
        name: the name of the part.
        metrics: the metrics that losses go into.
        tell: told of every step.
    """

    def __init__(self, name: str, metrics: Metrics, tell: Callable[[int, int], None]) -> None:
        self._name, self._metrics, self._tell = name, metrics, tell
        self._before: int | None = None  # steps of trainings before this one
        self._last = self._of = 0

    def __call__(self, step: int, total: int) -> None:
        """Pass on that a step is done."""
        self._tell(step, total)

    def loss(self, step: int, total: int, value: float) -> None:
        """Write the loss of a step that is done, for about a hundred steps."""
        if self._before is None:
            self._before = self._resumed(step)
        elif step <= self._last:
            self._before += self._of
        self._last, self._of = step, total
        if step % math.ceil(total / _MOST_LINES) == 0 or step == total:
            place = {"step": self._before + step, "part": self._name, "done": step, "of": total}
            self._metrics.write({**place, "loss": value})

    def _resumed(self, step: int) -> int:
        """Go on after an earlier process, whose lines from this step on are forgotten."""
        own = [line for line in self._metrics.lines if line.get("part") == self._name]
        if not own:
            return 0
        last = own[-1]
        before = int(last["step"] - last["done"])
        if step == 1 and last["done"] == last["of"]:
            return before + int(last["of"])
        first = before + step
        self._metrics.keep(lambda line: line.get("part") != self._name or line["step"] < first)
        return before
