"""Runs of a study that takes hours: each is kept when it is done, by several processes at once."""

from __future__ import annotations

import argparse
import fcntl
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import machine
from privet.cli import keep_freed_memory

Kept = dict[str, Any]
Summary = Callable[[list[Kept]], Mapping[str, Any]]


class Task(Protocol):
    """One run that is still to be done, or not."""

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells runs apart."""

    @property
    def described(self) -> str:
        """All its settings: a run that was done with others is stale."""


def arguments(
    description: str | None, *, data: bool = True, public: bool = True
) -> argparse.ArgumentParser:
    """Options that all such studies have, and folders for those that need them."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    if data:
        parser.add_argument("--data", type=Path, required=True, help="A folder with the data.")
    if public:
        parser.add_argument("--public", type=Path, required=True, help="A folder of public data.")
    parser.add_argument("--only", default="", help="Runs whose key contains this text.")
    parser.add_argument("--minutes", type=float, default=1e9, help="Start no run after these.")
    parser.add_argument("--stale", action="store_true", help="Runs of other settings once more.")
    parser.add_argument("--list", action="store_true", help="Print what is missing, do nothing.")
    return parser


def do_missing(
    path: Path,
    tasks: Iterable[Task],
    do: Callable[[Any], Kept],
    summary: Summary,
    options: argparse.Namespace,
) -> None:
    """One after the other; what another process does meanwhile is not done again."""
    keep_freed_memory()  # as the command line does
    start = time.monotonic()
    for task in tasks:
        if options.only not in words(task) or not missing(task, kept(path), stale=options.stale):
            continue
        if options.list:
            print(words(task))
            continue
        if time.monotonic() - start > 60 * options.minutes:
            break
        found = {**task.key, **do(task), "described": task.described}
        keep(path, found, tuple(task.key), summary)
        print(words(task), json.dumps(found.get("accuracies")), flush=True)


def words(task: Task) -> str:
    """A run's key as text, with spaces around every word."""
    return f" {' '.join(map(str, task.key.values()))} "


def missing(task: Task, runs: Sequence[Kept], *, stale: bool) -> bool:
    """Whether a run is not there, or of other settings."""
    same = [old for old in runs if same_key(old, task.key)]
    return not same or (stale and same[-1].get("described") != task.described)


def same_key(run: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    """Whether a run is that of a key; what an old run does not say, it is not told apart by."""
    return all(run.get(name, value) == value for name, value in key.items())


def kept(path: Path) -> list[Kept]:
    """Every run so far."""
    runs: list[Kept] = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def keep(path: Path, run: Kept, key: Sequence[str], summary: Summary) -> None:
    """Add a run to the file, in the place of one with the same key."""
    own = {name: run[name] for name in key}
    with _alone(path):
        runs = [old for old in kept(path) if not same_key(old, own)]
        runs.append(run)
        content = {"name": path.stem, **summary(runs), "runs": runs, "machine": machine.facts()}
        machine.write(path, content)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process reads and writes."""
    lock = Path(tempfile.gettempdir()) / f"privet-{path.stem}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
