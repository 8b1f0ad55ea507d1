"""File paths as a user typed them."""

import errno
import os
from pathlib import Path

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


def _refusal(path: str | os.PathLike[str], why: object) -> ConfigError:
    text = ascii(os.fspath(path))
    told = text if len(text) <= 100 else f"{text[:99]}…"
    return ConfigError(f"{told} is no path of a file ({why}); give another.")
