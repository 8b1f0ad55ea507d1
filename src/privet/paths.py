"""File paths as a user typed them."""

import errno
import os
from pathlib import Path
from stat import S_ISDIR

from privet.errors import ConfigError


def as_path(path: str | os.PathLike[str]) -> Path:
    """Turn a typed path into a `Path`, with `~` expanded; refuse what no file can be called."""
    try:
        found = Path(path).expanduser()
        found.stat()
    except (ValueError, RuntimeError) as error:  # a zero byte, or the home of nobody
        raise _refusal(path, error) from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise _refusal(path, error.strerror) from None
    return found


def absolute(path: str | os.PathLike[str]) -> str:
    """Make a path absolute, so that it is found from any working folder."""
    return str(as_path(path).resolve())


class Overlaps:
    """Whether two places have a file in common, by whatever name, or one lies within the other.

    A place is an absolute path; anything else is a name, which is equal to itself alone. Files are
    looked at once, when a place is first asked for.
    """

    def __init__(self) -> None:
        self._known: dict[Path, frozenset[tuple[int, int]]] = {}

    def __call__(self, place: str, other: str) -> bool:
        """Whether these two do."""
        ours, theirs = Path(place), Path(other)
        if ours == theirs:
            return True
        if not (ours.is_absolute() and theirs.is_absolute()):
            return False
        if theirs in ours.parents or ours in theirs.parents:
            return True
        return not self._files(ours).isdisjoint(self._files(theirs))

    def _files(self, place: Path) -> frozenset[tuple[int, int]]:
        if place not in self._known:
            self._known[place] = frozenset(_files(place))
        return self._known[place]


def overlap(place: str, other: str) -> bool:
    """Do as `Overlaps` for two places."""
    return Overlaps()(place, other)


def _files(place: Path) -> set[tuple[int, int]]:
    """Name, as the disk does, a file or all that lies in a folder, wherever links lead."""
    found: set[tuple[int, int]] = set()
    waiting = [place]
    while waiting:
        each = waiting.pop()
        try:
            state = each.stat()
            own = (state.st_dev, state.st_ino)
            if own not in found and S_ISDIR(state.st_mode):
                waiting += each.iterdir()
        except OSError:  # nothing there, or nothing that may be read
            continue
        found.add(own)
    return found


def _refusal(path: str | os.PathLike[str], why: object) -> ConfigError:
    text = ascii(os.fspath(path))
    told = text if len(text) <= 100 else f"{text[:99]}…"
    return ConfigError(f"{told} is no path of a file ({why}); give another.")
