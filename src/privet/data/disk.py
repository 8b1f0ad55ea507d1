"""What a disk refuses, in one sentence, and what makes files last."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privet.data.guard import shown
from privet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    """All of a file or nothing, durably; the draft's name must be nobody else's."""
    place = path.with_name(draft or f".{path.name}.part")
    with writing(path):
        try:
            place.unlink(missing_ok=True)
            with place.open("xb") as file:  # never through a link that lies there
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            place.replace(path)
            sync_folder(path.parent)
        finally:
            place.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a disk refuses into one sentence."""
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
