"""What stands between a hostile file and the rest of the program.

Decoders raise whatever they like on damaged bytes, and headers promise whatever they like.
Everything that reads a file goes through the three functions here, so that all of it ends as one
sentence.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from privet.errors import DataError, PrivetError

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20
GIB = 2**30

# Deflate reaches 1032:1 on zeros; photographs reach 3, binary glyphs 50, sorted labels 1000.
_MAX_RATIO = 200
_SMALL = 16 * MIB


def shown(name: object) -> str:
    """A name fit for a terminal: control characters, also those in file names, are replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name))


@contextmanager
def reading(where: object, kind: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into one `DataError` that names the file.

    Catching everything is the point: a damaged file has no list of exceptions to choose from.
    """
    try:
        yield
    except PrivetError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{shown(where)} does not fit in memory; save it uncompressed or in smaller files."
        ) from error
    except PermissionError as error:
        raise DataError(f"{shown(where)} may not be read; change its permissions.") from error
    except Exception as error:
        raise DataError(
            f"{shown(where)} is not a readable {kind}; it is damaged, truncated or something else,"
            " so replace it."
        ) from error


def refuse_bomb(
    where: object, *, declared: int, stored: int, max_bytes: int, ratio: int = _MAX_RATIO
) -> None:
    """Refuse a header that declares far more bytes than are stored or allowed."""
    if declared > max_bytes:
        raise DataError(
            f"{shown(where)} declares {declared:,} bytes, over the limit of {max_bytes:,}; raise"
            " max_bytes if that is really its size."
        )
    if declared > _SMALL and declared > ratio * stored:
        raise DataError(
            f"{shown(where)} declares {declared:,} bytes from {stored:,} stored ones, which no set"
            " of images does; save it again uncompressed if it is genuine."
        )
