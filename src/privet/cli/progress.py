"""What a person sees of a run while it goes on: sentences, and a bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from privet.runs.listening import News


class Watch:
    """Show the progress of a run on stderr.

    Args:
        bar: whether to show a progress bar, if stderr is a terminal.
    """

    def __init__(self, *, bar: bool) -> None:
        self._wanted = bar and sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        """Stop the current bar and leave it as it is."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None

    def note(self, sentence: str) -> None:
        """Print one line."""
        typer.echo(sentence, err=True)

    def step(self, news: News) -> None:
        """Move the bar of training steps."""
        if not self._wanted:
            return
        if self._bar is None or self._task is None:
            self._end()
            self._bar, self._task = _new_bar(news)
        speed = "" if news.rows_per_second is None else f"{two_digits(news.rows_per_second)}/s"
        self._bar.update(
            self._task,
            completed=news.step,
            spent=f"ε {news.epsilon:g} of {news.target:g}",
            speed=f"{speed} expected rows" if speed else "",
        )

    def progress(self, name: str) -> Callable[[int, int], None]:
        """A function that moves a bar for one part of a run: done, speed and time left."""
        bar: Progress | None = None
        task: TaskID | None = None

        def tell(done: int, total: int) -> None:
            nonlocal bar, task
            if not self._wanted:
                return
            if self._bar is None or self._task is not None:  # none, or that of training steps
                self._end()
                self._bar = _parts_bar()
            if bar is not self._bar or task is None:
                bar, task = self._bar, self._bar.add_task(name, total=total)
            self._bar.update(task, completed=done, total=total)

        return tell

    def stopping(self) -> None:
        """Say that the run will stop, past every buffer: a signal may come during a print."""
        os.write(2, b"\nStopping after this step; press Ctrl-C again to stop at once.\n")


def two_digits(value: float) -> str:
    """A number to two digits, as many as a mean over noisy times deserves."""
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _parts_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """A column that shows steps or images per second."""

        def render(self, task: Task) -> Text:
            return Text("" if not task.speed else f"{two_digits(task.speed)}/s")

    bar = Progress(
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        BarColumn(),
        Speed(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    bar.start()
    return bar


def _new_bar(news: News) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[spent]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    task = bar.add_task("train", total=news.total, completed=news.step, spent="", speed="")
    bar.start()
    return bar, task
