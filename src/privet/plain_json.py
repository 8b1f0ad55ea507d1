"""JSON that somebody else may have written: parsed whole, or refused by a `ValueError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any

WRONG_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of values of other types or sizes than whoever reads them expects."""

_MOST_BYTES = 256 * 2**20  # no configuration, certificate or state comes near it


def read(path: Path) -> Any:
    """Read a JSON file; a huge or damaged one is refused by an `OSError` or a `ValueError`."""
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes, over the limit of {_MOST_BYTES:,}")
    return parsed(path.read_bytes())


def parsed(text: str | bytes) -> Any:
    """Parse a JSON text.

    Refused if a key stands twice in one object, since readers differ in which of them they
    believe; with a whole number of more than 64 bits; and if it is nested too deeply to be read.

    Args:
        text: bytes are taken for UTF-8.
    """
    try:
        words = text.decode() if isinstance(text, bytes) else text
        return json.loads(words, object_pairs_hook=_each_once, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def require(body: Mapping[str, Any], **kinds: type | UnionType) -> None:
    """Refuse values of other types by a `TypeError`, and what is missing by a `KeyError`.

    Args:
        body: a parsed JSON object.
        kinds: the required type of the value under each key; `bool` does not pass for a number.
    """
    for name, kind in kinds.items():
        value = body[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{name} is {value!r}")


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= 2**64:
        raise ValueError(f"{digits[:20]}… has more than 64 bits")
    return int(digits)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(each for each in names if names.count(each) > 1)!r} is in it twice"
        )
    return found
