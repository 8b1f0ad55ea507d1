"""What a run says and saves while it goes on: metrics, checkpoints, a way to stop.

Nothing here shows a drawn batch: numbers of rows are expected ones, and times are means.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from privet.errors import Stopped
from privet.learn import Course, Progress
from privet.learn import checkpoint as checkpoints
from privet.privacy import PLD, Plan, Relation
from privet.privacy.budget import round_up
from privet.recipes.interrupts import SIGNALS, restore
from privet.runs.listening import News, StepListener
from privet.runs.run_folder import CHECKPOINT, RunFolder
from privet.runs.run_metrics import Metrics

SECONDS_BETWEEN_CHECKPOINTS = 1.0
_SHARE_FOR_CHECKPOINTS = 0.1  # of the time: rings of large models take long to write
_MOST_WAITING = 600  # times as long as usual
_MOST_COSTS = 8
_MOST_LINES = 200
_MOST_MEASUREMENTS = 10


class Costs:
    """Upper bounds on ε after a number of paid steps: exact at a few of them.

    Elsewhere it is that of the next one.
    """

    def __init__(self, plan: Plan, delta: float, relation: Relation) -> None:
        *others, steps = plan.events
        count = min(_MOST_COSTS, steps.count)
        self.counts = [-(-steps.count * (i + 1) // count) for i in range(count)]
        self._costs = [
            round_up(PLD().epsilon((*others, steps.times(each)), delta, relation), 3)
            for each in self.counts
        ]

    @classmethod
    def spent_at_once(cls, epsilon: float) -> Costs:
        """Costs of a trial: choosing among them costs all of ε, however far each one came."""
        costs = cls.__new__(cls)
        costs.counts, costs._costs = [sys.maxsize], [round_up(epsilon, 3)]
        return costs

    def __call__(self, paid: int) -> float:
        """An upper bound on ε after so many paid steps; 0 before the first."""
        return self._costs[bisect_left(self.counts, paid)] if paid else 0.0

    @property
    def whole(self) -> float:
        """ε of the whole plan."""
        return self._costs[-1]


@dataclass(kw_only=True)
class Recorder:
    """Writes metrics and checkpoints as it is told of every step.

    Args:
        folder: the run's folder.
        metrics: the metrics of the run.
        course: how the run goes through its steps.
        sampling_rate: the probability with which each row joins a step.
        expected_rows: expected rows in a step, views counted.
        costs: ε after a number of paid steps.
        paid: tells how many steps are paid for.
        measure: tells how good weights are on test rows; None if there are none.
        listener: told of every step.
        progress: where the run is.
        measured: the name of what `measure` tells, in a line.
    """

    folder: RunFolder
    metrics: Metrics
    course: Course
    sampling_rate: float
    expected_rows: float
    costs: Costs
    paid: Callable[[], int]
    measure: Callable[[Progress], float | None]
    listener: StepListener
    progress: Progress
    measured: str = "test_accuracy"
    stop: bool = False

    def __post_init__(self) -> None:
        self._first = self.progress.step
        self._begun = self._saved = time.monotonic()
        self._wait = SECONDS_BETWEEN_CHECKPOINTS

    def __call__(self, progress: Progress) -> None:
        """Write a line, save a checkpoint if it is time, and stop if someone wants it."""
        self.progress = progress
        epsilon = self.costs(self.paid())
        if self._due(_MOST_LINES):
            self._write_line(epsilon)
        self.listener.step(self._news(epsilon))
        if self.stop or time.monotonic() - self._saved >= self._wait:
            self.save()
        if self.stop:
            raise self.stopped()

    def save(self) -> None:
        """Save the progress so far, durably."""
        begun = time.monotonic()
        checkpoints.save(self.folder / CHECKPOINT, self.progress)
        self._saved = time.monotonic()
        least = SECONDS_BETWEEN_CHECKPOINTS
        wanted = (self._saved - begun) / _SHARE_FOR_CHECKPOINTS
        self._wait = min(max(least, wanted), _MOST_WAITING * least)

    def stopped(self) -> Stopped:
        """Make what is raised when a run ends early."""
        return Stopped(
            f"Stopped after step {self.progress.step:,} of {self.course.steps:,}, which is saved: "
            f"go on with {self.folder.command_to_resume}"
        )

    def _news(self, epsilon: float) -> News:
        done, passed = self.progress.step - self._first, time.monotonic() - self._begun
        return News(
            step=self.progress.step,
            total=self.course.steps,
            epsilon=epsilon,
            target=self.costs.whole,
            rows_per_second=self.expected_rows * done / passed if done and passed else None,
        )

    def _due(self, most: int) -> bool:
        """Whether this step is one of about `most` that are spread evenly, the last among them."""
        step, total = self.progress.step, self.course.steps
        return step % -(-total // most) == 0 or step == total

    def _write_line(self, epsilon: float) -> None:
        step = self.progress.step
        line: dict[str, Any] = {
            "step": step,
            "epoch": round(step * self.sampling_rate, 6),
            "epsilon": epsilon,
            "learning_rate": self.course.pace(step - 1).learning_rate,
        }
        if self._due(_MOST_MEASUREMENTS) and (share := self.measure(self.progress)) is not None:
            line[self.measured] = share
        self.metrics.write(line)


@contextmanager
def stoppable(recorder: Recorder) -> Iterator[None]:
    """Let Ctrl-C end a run after the step that is being paid for; a second one ends it at once.

    So does a machine's SIGTERM, where someone listens to it.
    """

    def handle(*_: object) -> None:
        if recorder.stop:
            raise KeyboardInterrupt
        recorder.stop = True
        recorder.listener.stopping()

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    heard = [each for each in SIGNALS if callable(signal.getsignal(each))]
    before = {each: signal.signal(each, handle) for each in heard}
    try:
        yield
    except KeyboardInterrupt:
        recorder.save()
        raise recorder.stopped() from None
    except Exception:  # out of memory, say: the steps before were paid for
        with suppress(Exception):
            recorder.save()
        raise
    finally:
        restore(before)
