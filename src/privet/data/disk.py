"""Errors of a disk turned into one sentence, and files that are written durably."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privet.data.guard import shown
from privet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk cannot hold; the folder need not exist yet."""
    above = (folder.absolute(), *folder.absolute().parents)
    with writing(folder):
        free = shutil.disk_usage(next(each for each in above if each.exists())).free
    if free < needed:
        raise ConfigError(
            f"{shown(folder)} needs {needed:,} bytes and its disk has {free:,} left; free some"
            " space or choose another folder."
        )


def sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes | memoryview, draft: str | None = None) -> None:
    """Write all of a file durably, or nothing; a `draft` name must be used by nobody else."""
    with drafted(path, draft) as file:
        file.write(content)


@contextmanager
def drafted(path: Path, draft: str | None = None) -> Iterator[BinaryIO]:
    """Write to a hidden draft that durably takes the place of a file at the end, or is removed.

    The draft has a fixed name, so that what a killed process left is overwritten. It is locked
    while a process writes, and others are refused.
    """
    place = path.with_name(draft or f".{path.name}.part")
    with writing(path), _held(place, path) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            place.replace(path)
        except BaseException:
            place.unlink(missing_ok=True)
            raise
    with writing(path):
        sync_folder(path.parent)


def _held(place: Path, path: Path) -> BinaryIO:
    """Open, lock and empty a draft, never through a link."""
    if place.is_symlink():
        place.unlink()
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    file = os.fdopen(descriptor, "wb")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), place.stat()):
            raise BlockingIOError  # it was put in its place a moment ago
    except (BlockingIOError, FileNotFoundError):
        file.close()
        raise ConfigError(f"{shown(path)} is being written by another process.") from None
    os.ftruncate(descriptor, 0)
    return file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a `ConfigError` of one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "does not fit on its disk; free some space or choose another folder"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            problem = "may not be written; change the permissions or choose another folder"
        else:
            problem = f"cannot be written ({error.strerror}); check the folder and disk"
        raise ConfigError(f"{shown(path)} {problem}.") from error
