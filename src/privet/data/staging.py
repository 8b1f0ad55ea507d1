"""Output that appears whole or not at all: a folder or a file, which replaces only what is ours."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privet.data.disk import drafted, writing
from privet.data.guard import shown
from privet.errors import ConfigError
from privet.paths import as_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO


def check_free_folder(
    out: Path, *, source: Path, is_ours: Callable[[Path], bool], force: bool
) -> None:
    """Refuse a place that is not ours to replace, before any work is done.

    Args:
        out: where a folder is to be.
        source: the folder that is read meanwhile.
        is_ours: whether nothing but earlier output would be lost with a folder.
        force: replace it if it is ours.
    """
    place = as_path(out).resolve()
    if place.is_relative_to(as_path(source).resolve()):
        raise ConfigError(f"{shown(out)} lies in the folder of the shards; choose one outside it.")
    with writing(out):
        if as_path(out).is_symlink():
            raise ConfigError(f"{shown(out)} is a link; give the folder itself.")
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return
        if not (place.is_dir() and is_ours(place)):
            raise ConfigError(f"{shown(out)} holds something else; choose another folder.")
    if not force:
        raise ConfigError(f"{shown(out)} exists; give another path, or --force to overwrite it.")


def check_free_file(out: Path, suffix: str, *, force: bool) -> None:
    """Refuse a file name without the right suffix, or a file that would be overwritten."""
    place = as_path(out)
    if place.suffix.lower() != suffix:
        raise ConfigError(f"{shown(out)} does not end in {suffix}; give a path that does.")
    with writing(out):
        if place.is_dir():
            raise ConfigError(f"{shown(out)} is a folder; give the path of a file.")
        if (place.exists() or place.is_symlink()) and not force:
            raise ConfigError(
                f"{shown(out)} exists; give another path, or --force to overwrite it."
            )


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """An empty folder that takes its place when the block ends well, and is removed otherwise."""
    place = as_path(out).resolve()
    with writing(out), _staged(place, out) as staging:
        yield staging
        _put_in_place(staging, place)


@contextmanager
def new_file(out: Path) -> Iterator[BinaryIO]:
    """A file that durably takes its place when the block ends well, and is removed otherwise.

    A link that lies there is replaced, and what it points to is left alone.
    """
    place = as_path(out).parent.resolve() / out.name
    with writing(out):
        place.parent.mkdir(parents=True, exist_ok=True)
    with drafted(place) as file:
        yield file


@contextmanager
def _staged(place: Path, out: Path) -> Iterator[Path]:
    """An empty hidden folder beside the place, locked against other processes and removed later."""
    staging = place.with_name(f".{place.name}.part")
    if staging.is_symlink():
        staging.unlink()
    staging.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(staging, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{shown(out)} is being written by another process.") from None
        try:
            _empty(staging)
            _recover(place)
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def _put_in_place(staging: Path, place: Path) -> None:
    """Rename the new folder into place, keeping an earlier one aside until that is done."""
    if not place.exists():
        staging.rename(place)
        return
    aside = _aside(place)
    place.rename(aside)
    try:
        staging.rename(place)
    except BaseException:
        aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.part.old")


def _recover(place: Path) -> None:
    """Bring back, or remove, what a process killed between two renames had put aside."""
    aside = _aside(place)
    if aside.is_dir():
        if place.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(place)
