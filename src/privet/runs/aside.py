"""Digests of rows that a run splits off private ones: public by their owner's word, or for tests.

Two runs that set other rows aside of the same data would each publish rows that the other protects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from privet.errors import PrivacyError
from privet.privacy.splits import digest_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privet.data import ImageSet

_AT_ONCE = 256
_BETWEEN = "\x1f"


def digests(parts: Mapping[str, Iterable[bytes] | None], known: str = "") -> str:
    """Make a digest of each part, after its name; empty if there are none.

    Args:
        parts: what each part consists of; None for a part that nobody asked for.
        known: what a run remembers of its parts, which must be the same; empty if there is none.

    Raises:
        PrivacyError: if one is another now.
    """
    found = {name: _digest(part) for name, part in parts.items() if part is not None}
    for name, now in found.items():
        require_same_rows(digest_of(name, known), now)
    return " ".join(f"{name} {each}" for name, each in found.items())


def require_same_rows(before: str, now: str) -> None:
    """Refuse to go on with other rows than a run set aside; unless nothing is known of those."""
    if before and before != now:
        raise PrivacyError(
            "The rows that are set aside are not those of the run, so that rows which it protects "
            "would be public: bring the data back as they were, or start another run."
        )


def image_bytes(images: ImageSet | None) -> Iterator[bytes] | None:
    """The pixels of images, some at a time."""
    if images is None:
        return None
    starts = range(0, len(images), _AT_ONCE)
    return (np.ascontiguousarray(images.images[at : at + _AT_ONCE]).tobytes() for at in starts)


def table_bytes(table: pa.Table | None) -> Iterator[bytes] | None:
    """The values of a table, column by column."""
    if table is None:
        return None
    columns = zip(table.column_names, table.columns, strict=True)
    return (_joined([name, *map(str, column.to_pylist())]) for name, column in columns)


def text_bytes(sequences: Iterable[Iterable[str]] | None) -> Iterator[bytes] | None:
    """The words of sequences, one after the other."""
    return None if sequences is None else (_joined(each) for each in sequences)


def _joined(texts: Iterable[str]) -> bytes:
    return _BETWEEN.join(texts).encode("utf-8", "surrogatepass")


def _digest(parts: Iterable[bytes]) -> str:
    """Of parts one after the other, each with its length before it."""
    made = sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()
