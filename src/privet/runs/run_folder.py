"""A run's folder: which files are ours, who may write there, and files written whole or not at all.

A folder is a run's if its config.json says so. The folder itself is locked while a process works in
it, so that the lock goes when the process does.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privet import plain_json
from privet.data.disk import sync_folder, writing
from privet.data.guard import shown
from privet.data.png_folders import remove_png_folders
from privet.errors import ConfigError, DataError, Stopped
from privet.paths import as_path
from privet.plain_json import WRONG_VALUES
from privet.privacy.store import BESIDE
from privet.runs.event_file import PATTERN

CONFIG = "config.json"
STATE = "run.json"
CHECKPOINT = "checkpoint.safetensors"
METRICS = "metrics.jsonl"
DIAGNOSTICS = "diagnostics.json"
CERTIFICATE = "certificate.json"
CARD = "README.md"
MODEL = "model.safetensors"
ENSEMBLE = "ensemble.safetensors"
RESULT = "result.json"
LEDGER = "ledger.db"
REPORT = "report.html"
SAMPLES = "samples.png"
MEMORISATION = "memorisation.png"
EVALUATION = "evaluation.json"
STEPS = "steps"
TENSORBOARD = "tensorboard"
RELEASES = "releases"
TUNING = "tuning.json"
TRIALS = "trials"
PARTIES = "parties"
SYNTHETIC = "synthetic"
PNG = "png"
TABLE_CSV = f"{SYNTHETIC}/table.csv"
TABLE_PARQUET = f"{SYNTHETIC}/table.parquet"
# But for config.json, which marks the folder as a run's and is only ever replaced.
_FILES = (
    *(RESULT, MODEL, ENSEMBLE, CERTIFICATE, METRICS, DIAGNOSTICS, REPORT, SAMPLES),
    *(MEMORISATION, EVALUATION, CHECKPOINT, STATE, TUNING),
)
_WITH_ROWS = (f"{SYNTHETIC}/{CERTIFICATE}", f"{SYNTHETIC}/{CARD}", TABLE_CSV, TABLE_PARQUET)
_PART = ".part"
_LAYOUT = "1"
_OURS = (
    "privet.train",
    "privet.tune",
    "privet.synthesize",
    "privet.classifier",
    "privet.federate",
    "privet.merge",
)


class _Body(dict[str, Any]):
    """The content of a JSON file, which refuses to be asked for what it does not say."""

    def __init__(self, body: Mapping[str, Any], path: Path, remedy: str) -> None:
        super().__init__(body)
        self._path, self._remedy = path, remedy

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{shown(self._path)} has no {key!r}: {self._remedy}.")


@contextmanager
def understood(folder: object) -> Iterator[None]:
    """Turn what comes of files that were edited into one sentence that names their folder."""
    try:
        yield
    except WRONG_VALUES as error:
        raise DataError(
            f"The files of the run in {shown(folder)} do not fit together ({shown(repr(error))}): "
            "put back copies of those that were edited."
        ) from error


class RunFolder:
    """One run's place on disk."""

    def __init__(self, path: Path, command: str = "train") -> None:
        self.path = as_path(path)
        self.command = command
        self.schema = f"privet.{command}/{_LAYOUT}"

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __str__(self) -> str:
        return shown(self.path)

    @property
    def command_to_resume(self) -> str:
        """The command that goes on with the run."""
        return f"privet {self.command} --out {shlex.quote(str(self))} --resume"

    def stopped(self, *, began: bool) -> Stopped:
        """Make what is raised when someone ends a run before its first step, or between others.

        Args:
            began: whether the run was there before, or is under way.
        """
        if began or self.has(STATE):
            return Stopped(f"Stopped: go on with {self.command_to_resume}")
        again = "start it again with --force" if self.holds_run else "run it again when you like"
        return Stopped(f"Stopped before anything was spent: {again}.")

    def has(self, name: str) -> bool:
        """Whether the folder has a file of this name."""
        return (self.path / name).is_file()

    @property
    def holds_run(self) -> bool:
        """Whether a run of this command was begun here."""
        try:
            return self.has(CONFIG) and self.read(CONFIG).get("schema") == self.schema
        except DataError:
            return False

    def refuse_other_layouts(self) -> None:
        """Refuse what another version wrote, which should not look like nothing at all."""
        if not self.has(CONFIG):
            return
        schema = str(self.read(CONFIG).get("schema"))
        if schema.partition("/")[0] in _OURS and schema.partition("/")[2] != _LAYOUT:
            raise DataError(
                f"{shown(self / CONFIG)} has the layout {shown(schema)!r}, which this Privet does "
                "not know: use the Privet that wrote it."
            )

    def check_free(self, *, force: bool) -> None:
        """Refuse a place where a new run would overwrite something; nothing is written."""
        if self.path.is_symlink():
            raise ConfigError(f"{self} is a link: give the folder itself as --out.")
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(f"{self} is a file: choose another --out.")
        if all(each.name == CONFIG + _PART for each in self.path.iterdir()):
            return  # nothing, or what was killed before it was anything
        if not self.holds_run:
            raise ConfigError(f"{self} holds something else than a run: choose another --out.")
        if not force:
            raise ConfigError(
                f"{self} holds a run already: go on with --resume, replace it with --force, or "
                "choose another --out."
            )

    def check_idle(self) -> None:
        """Refuse a folder that a process works in."""
        if self.path.is_dir():
            with self._locked():
                pass

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder against other processes; one that stays empty is taken away again."""
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self} cannot be made ({error.strerror}).") from None
        try:
            self._refuse_links()
            with self._locked():
                self._sweep()
                yield
        finally:
            for folder in missing:
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()

    def _refuse_links(self) -> None:
        """Refuse links in the folder: a run writes into its own folder alone."""
        link = next((each for each in self.path.iterdir() if each.is_symlink()), None)
        if link is not None:
            raise ConfigError(
                f"{shown(link)} is a link, and runs write into their own folder alone: put the "
                "file itself there, or remove it."
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{self} is in use by a running process: wait for it, or choose another --out."
                ) from None
            yield
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove drafts that a killed process left, and that nobody would write over."""
        names = [name + _PART for name in (CONFIG, *_FILES, *_WITH_ROWS)]
        for draft in (*names, *self._steps(f"*.safetensors{_PART}")):
            if self.has(draft):
                with suppress(OSError):  # a folder that may only be read keeps them
                    (self.path / draft).unlink()

    def clear(self) -> Path | None:
        """Remove an earlier run's files and nothing else; its ledger is kept under another name.

        What an earlier run spent on the same data does not become unspent.
        """
        for name in (*_FILES, *_WITH_ROWS, *self._steps(), *self._shards(), *self._events()):
            (self.path / name).unlink(missing_ok=True)
            (self.path / (name + _PART)).unlink(missing_ok=True)
        remove_png_folders(self.path / PNG)
        if not self.has(LEDGER):
            return None
        number = 1
        while (self.path / f"ledger.{number}.db").exists():
            number += 1
        for suffix in (*BESIDE, ""):
            old = self.path / (LEDGER + suffix)
            if old.exists():
                old.rename(self.path / f"ledger.{number}.db{suffix}")
        return self.path / f"ledger.{number}.db"

    def _steps(self, pattern: str = "*.safetensors*") -> list[str]:
        return [name for folder in (STEPS, RELEASES) for name in self._listed(folder, pattern)]

    def _shards(self) -> list[str]:
        return self._listed(SYNTHETIC, "part-*.parquet")

    def _events(self) -> list[str]:
        return self._listed(TENSORBOARD, PATTERN)

    def _listed(self, folder: str, pattern: str) -> list[str]:
        return [str(each.relative_to(self.path)) for each in (self.path / folder).glob(pattern)]

    def discard(self, name: str) -> None:
        """Remove a file of ours that is no longer needed."""
        (self.path / name).unlink(missing_ok=True)

    def read(self, name: str, remedy: str = "start again in another folder") -> dict[str, Any]:
        """Read a JSON file; refuse it, with a remedy, if it cannot be read or lacks a key."""
        path = self.path / name
        try:
            body = plain_json.read(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{shown(path)} cannot be read ({shown(error)}): {remedy}.") from None
        if not isinstance(body, dict):
            raise DataError(f"{shown(path)} is no JSON object: {remedy}.")
        return _Body(body, path, remedy)

    def write(self, name: str, body: Mapping[str, Any]) -> None:
        """Write a JSON file, whole or not at all."""
        text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        self.write_with(name, lambda path: path.write_text(text, encoding="utf-8"))

    def write_with(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` make a file, and put it in its place when it is durable."""
        with self._drafted(name, write) as draft:
            draft.replace(self.path / name)
            sync_folder(draft.parent)

    def rehearse(self, name: str, content: bytes) -> None:
        """Write a file and remove it again: refused now if it would be refused later."""
        with self._drafted(name, lambda path: path.write_bytes(content)):
            pass

    @contextmanager
    def _drafted(self, name: str, write: Callable[[Path], object]) -> Iterator[Path]:
        """Write a durable file beside its place; it is gone in the end if it was not put there."""
        draft = self.path / (name + _PART)
        with writing(self.path / name):
            draft.parent.mkdir(exist_ok=True)
            draft.unlink(missing_ok=True)  # a link that lies there is not followed
            try:
                write(draft)
                with draft.open("rb") as written:
                    os.fsync(written.fileno())
                yield draft
            finally:
                draft.unlink(missing_ok=True)
