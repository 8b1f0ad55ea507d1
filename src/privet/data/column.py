"""Arrays that need not be in memory: the protocol, and rows chosen from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = slice | NDArray[np.int64]


class Column(Protocol):
    """Anything that answers slices and index arrays with NumPy arrays, such as a memory map."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the number of rows first."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the arrays that `__getitem__` returns."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows, /) -> NDArray[Any]: ...


def positions(rows: Rows, count: int) -> NDArray[np.int64]:
    """The row numbers, from 0 upwards, that a slice or an index array means."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count), dtype=np.int64)
    index = np.asarray(rows)
    if index.ndim != 1:
        raise IndexError("rows are chosen by a slice or by an array of one dimension")
    if index.dtype == np.bool_:
        return np.arange(count, dtype=np.int64)[index]
    if index.size and index.dtype.kind not in "iu":
        raise IndexError(f"rows are chosen by whole numbers, not by {index.dtype}")
    if index.size and not (-count <= index.min() and index.max() < count):
        raise IndexError(f"row numbers run from 0 to {count - 1}")
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + count, index)


@dataclass(frozen=True, eq=False, repr=False)
class ChosenRows:
    """Rows of another column by number: choosing costs an index, not a copy."""

    base: Column
    index: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the chosen rows."""
        return (len(self.index), *self.base.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the column that rows are chosen from."""
        return self.base.dtype

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Rows, /) -> NDArray[Any]:
        return self.base[self.index[positions(rows, len(self))]]


def take_rows(column: Column, rows: Rows) -> Column:
    """Choose rows without reading more than has been read: views, then indices, then copies."""
    in_memory = isinstance(column, np.ndarray) and not isinstance(column, np.memmap)
    if in_memory or (isinstance(column, np.ndarray) and isinstance(rows, slice)):
        return column[rows]
    index = positions(rows, len(column))
    if isinstance(column, ChosenRows):
        return ChosenRows(column.base, column.index[index])
    return ChosenRows(column, index)
