"""Class labels: whole numbers from 0 to C - 1, and the names that go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.guard import shown
from privet.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_CLASSES = 2**20


def as_labels(raw: NDArray[Any], *, count: int, where: object) -> NDArray[np.int64]:
    """Check labels and return them as int64; nothing is rounded, clipped or renumbered silently."""
    labels = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if labels.ndim != 1:
        raise DataError(
            f"{shown(where)} has labels of shape {raw.shape}; give one whole number an image,"
            " not a one-hot row."
        )
    if len(labels) != count:
        raise DataError(
            f"{shown(where)} has {len(labels)} labels for {count} images; give one label an image."
        )
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"{shown(where)} has labels of type {labels.dtype}; save them as whole numbers from 0."
        )
    _check_range(labels, where)
    return labels.astype(np.int64, copy=False)


def _check_range(labels: NDArray[Any], where: object) -> None:
    if not len(labels):
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0:
        raise DataError(
            f"{shown(where)} has the negative label {low}; number the classes from 0 and leave"
            " unlabelled images out."
        )
    if high >= _MAX_CLASSES:
        raise DataError(f"{shown(where)} has the label {high}; number the classes 0, 1, 2, ….")


def names_for(
    labels: NDArray[np.int64], names: tuple[str, ...] | None, *, where: object
) -> tuple[str, ...]:
    """The given names if they cover the labels, else `0`, `1`, … if no class is skipped."""
    if names is None:
        return _numbered(labels, where)
    if len(labels) and int(labels.max()) >= len(names):
        raise DataError(
            f"{shown(where)} has the label {int(labels.max())} but only {len(names)} class names;"
            " name every class."
        )
    return names


def _numbered(labels: NDArray[np.int64], where: object) -> tuple[str, ...]:
    counts = np.bincount(labels)
    gaps = np.flatnonzero(counts == 0)
    if len(gaps):
        raise DataError(
            f"{shown(where)} has labels up to {len(counts) - 1} but none that is {int(gaps[0])};"
            " renumber them without gaps or give class_names."
        )
    return tuple(str(number) for number in range(len(counts)))
