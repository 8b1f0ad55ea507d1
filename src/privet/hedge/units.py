"""Rows as units of privacy: an image, a user's images, a sequence, a table row are one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from numbers import Integral
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from privet.errors import ConfigError, DataError

Index = slice | NDArray[np.int64]

_COMPARED = 64  # rows by which processes see whether they have the same ones
_BAD_IDS = "User ids must be all whole numbers or all texts: anything else may be missing."


class Column(Protocol):
    """An array, a memory map or a lazily decoded sequence that gives some rows at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the number of rows first."""

    def __getitem__(self, index: Index, /) -> Any:
        """The chosen rows, as an array or a tensor."""


@dataclass(frozen=True, eq=False)
class Units:
    """A batch of units: named columns of rows, and where each unit's rows begin and end.

    Unit i owns rows `offsets[i]` to `offsets[i + 1]` of every column, at least one. `number` is the
    place of this batch within its sum, whichever process adds it up. `grouped` says that units are
    users, who may have several rows, whether any in this batch has: what is done to one unit must
    not depend on how many rows another has. `parent` says what they were selected from.
    """

    columns: Mapping[str, Tensor]
    offsets: Tensor
    number: int = 0
    grouped: bool = False
    parent: Parent | None = None

    def __post_init__(self) -> None:
        if not self.grouped and not self.single:
            raise ConfigError("A unit of several rows is a user: say that units are grouped.")

    def __len__(self) -> int:
        return self.offsets.numel() - 1

    def __getitem__(self, column: str) -> Tensor:
        return self.columns[column]

    @property
    def num_rows(self) -> int:
        """The number of rows of all units together."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> Tensor:
        """Each unit's number of rows."""
        return self.offsets.diff()

    @cached_property
    def single(self) -> bool:
        """Whether every unit has exactly one row."""
        return self.num_rows == len(self)

    @cached_property
    def owner(self) -> Tensor:
        """For each row, the index of its unit."""
        numbers = torch.arange(len(self), device=self.offsets.device)
        return torch.repeat_interleave(numbers, self.sizes)

    def mean(self, per_row: Tensor) -> Tensor:
        """Average rows within each unit: a user counts once, however many rows they have."""
        if self.single:
            return per_row
        total = per_row.new_zeros(len(self), *per_row.shape[1:]).index_add_(0, self.owner, per_row)
        return total / self.sizes.reshape(-1, *[1] * (per_row.dim() - 1))

    def select(self, keep: Tensor) -> Units:
        """The units for which a mask is true; they remember which batch they are from."""
        rows = keep[self.owner]
        offsets = torch.zeros(int(keep.sum()) + 1, dtype=torch.int64, device=self.offsets.device)
        offsets[1:] = self.sizes[keep].cumsum(0)
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Units(columns, offsets, self.number, self.grouped, Parent(self, rows))


@dataclass(frozen=True, eq=False)
class Parent:
    """The units that others were selected from, and a mask of the rows that were kept."""

    units: Units
    rows: Tensor


class Rows:
    """All private rows, grouped into units and handed out in batches. Only the hedge holds one."""

    def __init__(self, columns: Mapping[str, Column], users: ArrayLike | None = None) -> None:
        lengths = {name: column.shape[0] for name, column in columns.items()}
        if not lengths:
            raise DataError("Private rows need at least one column.")
        if len(set(lengths.values())) != 1:
            raise DataError(f"Private columns must be equally long, not {lengths}.")
        [num_rows] = set(lengths.values())
        self._columns = dict(columns)
        self._order: NDArray[np.int64] | None = None
        self._offsets = np.arange(num_rows + 1)
        self._grouped = users is not None
        if users is not None:
            self._order, self._offsets = _grouped(_ids(users), num_rows)

    @cached_property
    def arrangement(self) -> int:
        """Which rows are which unit's, as one number: private, and compared within a team.

        The rows themselves go into it, so that the same rows in another order are others; of
        columns that are no plain array some rows do.
        """
        found = sha256(self._offsets.astype(np.int64).tobytes())
        if self._order is not None:
            found.update(self._order.astype(np.int64).tobytes())
        num_rows = int(self._offsets[-1])
        some = np.unique(np.linspace(0, num_rows - 1, _COMPARED).astype(np.int64))
        for name in sorted(self._columns) if num_rows else ():
            column = self._columns[name]
            if isinstance(column, np.ndarray):
                for start in range(0, num_rows, _COMPARED):
                    found.update(column[start : start + _COMPARED].tobytes())
                continue
            rows = _tensor(column[some], torch.device("cpu")).contiguous()
            found.update(rows.view(torch.uint8).numpy().tobytes())
        return int.from_bytes(found.digest()[:7])

    @property
    def num_units(self) -> int:
        """How many units there are: private under add-or-remove, and never shown."""
        return len(self._offsets) - 1

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(self._columns)

    def batch(self, units: Index, device: torch.device, number: int = 0) -> Units:
        """The rows of the given units; a contiguous batch of ungrouped rows is not copied."""
        rows: Index
        if isinstance(units, slice) and self._order is None:
            offsets = self._offsets[units.start : units.stop + 1]
            rows = slice(int(offsets[0]), int(offsets[-1]))
            offsets = offsets - offsets[0]
        else:
            numbers = np.arange(units.start, units.stop) if isinstance(units, slice) else units
            rows, offsets = self._gather(numbers)
        columns = {name: _tensor(column[rows], device) for name, column in self._columns.items()}
        return Units(columns, torch.from_numpy(offsets).to(device), number, self._grouped)

    def in_batches(self, size: int) -> list[Index]:
        """All units in order, as batches of at most `size`."""
        everyone = self.num_units
        return [slice(start, min(start + size, everyone)) for start in range(0, everyone, size)]

    def mapped(
        self, function: Callable[[Units], Mapping[str, Tensor]], batches: Iterable[Units]
    ) -> Rows:
        """Compute new columns of the same units; their rows then lie unit after unit.

        Args:
            function: from a batch to new columns; it must treat each row by itself.
            batches: all units, in order.
        """
        pieces: dict[str, list[Tensor]] = {}
        with torch.no_grad():
            for units in batches:
                for name, column in function(units).items():
                    if len(column) != units.num_rows:
                        raise ConfigError(f"Mapped column {name!r} must have one value per row.")
                    pieces.setdefault(name, []).append(column.cpu())
        columns = {name: torch.cat(column) for name, column in pieces.items()}
        if {column.shape[0] for column in columns.values()} != {int(self._offsets[-1])}:
            raise ConfigError("Every batch must be mapped to the same columns.")
        other = Rows(columns)
        other._offsets, other._grouped = self._offsets, self._grouped
        other.arrangement = self.arrangement
        return other

    def _gather(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts = self._offsets[units]
        offsets = np.concatenate([[0], np.cumsum(self._offsets[units + 1] - starts)])
        rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], np.diff(offsets))
        return rows if self._order is None else self._order[rows], offsets


def _ids(users: ArrayLike) -> NDArray[Any]:
    """User ids as given: NumPy would turn a missing id among texts into the text 'nan'."""
    if isinstance(users, np.ma.MaskedArray):
        raise DataError(_BAD_IDS)
    return users if isinstance(users, np.ndarray) else np.array(list(users), dtype=object)  # type: ignore[arg-type]


def _grouped(users: NDArray[Any], num_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order that puts rows user by user, and where the rows of each user begin."""
    if users.shape != (num_rows,):
        raise DataError(
            f"Every row needs one user id: {num_rows} rows, ids of shape {users.shape}."
        )
    if users.dtype.kind == "O":
        kinds = [str, Integral]
        if not any(all(isinstance(user, kind) for user in users) for kind in kinds):
            raise DataError(_BAD_IDS)
        users = np.array(users.tolist())
    if users.dtype.kind not in "iuUS":
        raise DataError(_BAD_IDS)
    _, owner, counts = np.unique(users, return_inverse=True, return_counts=True)
    return np.argsort(owner, kind="stable"), np.concatenate([[0], np.cumsum(counts)])


def _tensor(rows: Any, device: torch.device) -> Tensor:
    if isinstance(rows, np.ndarray):
        # torch cannot share read-only memory; a memory map is copied batch by batch.
        rows = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
    tensor: Tensor = rows
    return tensor.to(device)
