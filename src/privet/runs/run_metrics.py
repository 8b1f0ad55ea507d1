"""What a run measures while it goes on: metrics.jsonl, and the same as TensorBoard's events.

A line has a step and what is known of it, nothing of which depends on private rows but by way of
what left the hedge. Events are made of lines: they can say nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from privet.data.disk import writing
from privet.plain_json import WRONG_VALUES, parsed, require
from privet.runs.event_file import PATTERN, EventFile, check_installed
from privet.runs.run_folder import METRICS, SAMPLES, TENSORBOARD, RunFolder

Line = Mapping[str, Any]
_PLACE = ("step", "part", "done", "of")  # of a line, which are no measurements


def check_events(folder: RunFolder, *, asked: bool, resume: bool) -> None:
    """Refuse events that cannot be written, before anything is spent."""
    if asked or (resume and _event_files(folder)):
        check_installed()


def begin_events(folder: RunFolder) -> EventFile:
    """Begin a file of events with all that was measured so far.

    Earlier files stay, since whoever reads them now would not find the next one; it takes back all
    that they say.
    """
    file = EventFile.following(_event_files(folder), folder / TENSORBOARD)
    for line in _lines(folder):
        file.scalars(line["step"], _scalars(line))
    return file


def _event_files(folder: RunFolder) -> list[Path]:
    return sorted((folder / TENSORBOARD).glob(PATTERN))


class Metrics:
    """The metrics of one run; events are written too where some were begun."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._events = begin_events(folder) if _event_files(folder) else None
        self.keep(lambda _: True)  # a line that was not written to its end goes

    @property
    def lines(self) -> list[Line]:
        """All lines that were written so far."""
        return _lines(self._folder)

    def write(self, line: Line) -> None:
        """Append one line."""
        path = self._folder / METRICS
        with writing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._events is not None:
            self._events.scalars(line["step"], _scalars(line))

    def keep(self, wanted: Callable[[Line], bool]) -> None:
        """Keep the lines that are wanted, and forget all others: those of steps that were lost."""
        if not self._folder.has(METRICS):
            return
        kept = "".join(json.dumps(line) + "\n" for line in self.lines if wanted(line))
        if kept == (self._folder / METRICS).read_text(encoding="utf-8", errors="replace"):
            return
        self._folder.write_with(METRICS, lambda path: path.write_text(kept, encoding="utf-8"))
        if self._events is not None:
            self._events = begin_events(self._folder)

    def show_samples(self, count: int) -> None:
        """Add the sheet of a synthetic set of so many images to the events."""
        if self._events is None:
            return
        path = self._folder / SAMPLES
        with Image.open(path) as sheet:
            size = sheet.size
        self._events.picture(count, "samples", path.read_bytes(), size)


def _lines(folder: RunFolder) -> list[Line]:
    """Read the lines that are whole."""
    if not folder.has(METRICS):
        return []
    found = []
    text = (folder / METRICS).read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        try:
            body = parsed(line)
            require(body, step=int)
        except WRONG_VALUES:
            continue
        found.append(body)
    return found


def _scalars(line: Line) -> dict[str, float]:
    prefix = f"{line['part']}/" if "part" in line else ""
    return {prefix + name: float(value) for name, value in line.items() if name not in _PLACE}
