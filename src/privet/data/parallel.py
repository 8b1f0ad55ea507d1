"""One function over many rows, in threads if that pays, with a progress bar if anyone watches.

Image decoders let go of the interpreter lock while they work, so threads are enough; on small
images they spend their time waiting for it, so threads are too much.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_CHUNK = 8
_MIN_PIXELS = 96 * 96
_WORKERS = min(os.cpu_count() or 1, 16)


def worth_threads(pixels: int) -> bool:
    """Whether decoding this many pixels takes longer than passing the lock around."""
    return pixels >= _MIN_PIXELS


def for_each(
    work: Callable[[int], T], count: int, *, threads: bool, label: str | None = None
) -> list[T]:
    """`[work(0), work(1), …]`; the first error stops the rest."""

    def run(start: int) -> list[T]:
        return [work(row) for row in range(start, min(start + _CHUNK, count))]

    results: list[T] = []
    starts = range(0, count, _CHUNK)
    pool = ThreadPoolExecutor(_WORKERS) if threads and len(starts) > 1 else nullcontext()
    with progress(label, count) as advance, pool as executor:
        for done in executor.map(run, starts) if executor else map(run, starts):
            results += done
            advance(len(done))
    return results


@contextmanager
def progress(label: str | None, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, only if that is a terminal and there is a label to show."""
    if label is None or not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)
