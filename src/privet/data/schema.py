"""What a table's columns are: bounds, categories and classes, declared or from public rows.

A schema is all that turns rows into numbers. Private values beyond the bounds are clamped, unseen
categories share one slot, and missing values are treated as declared, so that no error and no
number depends on more than one private row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from privet.data.guard import shown
from privet.data.tables import numbers, words
from privet.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Encoded: TypeAlias = "NDArray[np.float32]"


class TableColumn(Protocol):
    """What one column holds, and how it becomes numbers."""

    @property
    def name(self) -> str:
        """The name of the column in the table."""

    @property
    def width(self) -> int:
        """How many numbers a value becomes."""

    def encoded(self, column: Any) -> Encoded:
        """Encode an Arrow column as numbers (N, width)."""


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A number between two bounds, encoded as one from -1 to 1.

    Args:
        name: the name of the column.
        low: smaller numbers are raised to it.
        high: larger numbers are lowered to it.
        missing: the number that a missing value stands for; `None` for the middle.
    """

    name: str
    low: float
    high: float
    missing: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ConfigError(
                f"The column {shown(repr(self.name))} has bounds from {self.low:g} to "
                f"{self.high:g}: give a low and a higher number."
            )
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise ConfigError(
                f"Missing values of {shown(repr(self.name))} are taken for {self.missing:g}: give "
                f"a number from {self.low:g} to {self.high:g}."
            )

    @property
    def width(self) -> int:
        """The number of encoded numbers: one."""
        return 1

    def encoded(self, column: Any) -> Encoded:
        """Clamp values to the bounds and scale them to [-1, 1]."""
        values = numbers(column)
        middle = (self.low + self.high) / 2
        values = np.where(
            np.isnan(values), middle if self.missing is None else self.missing, values
        )
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return (2 * share - 1).astype(np.float32)[:, None]


@dataclass(frozen=True, kw_only=True)
class Binary:
    """One of two values, encoded as -1 or 1; anything else is 0.

    Args:
        name: the name of the column.
        values: the two values, as texts.
        missing: which of them a missing value stands for; `None` for neither.
    """

    name: str
    values: tuple[str, str]
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_words(self.name, self.values, self.missing)
        if len(self.values) != 2:
            raise ConfigError(
                f"The binary column {shown(repr(self.name))} has {len(self.values)} values: give 2."
            )

    @property
    def width(self) -> int:
        """The number of encoded numbers: one."""
        return 1

    def encoded(self, column: Any) -> Encoded:
        """Encode values as -1, 1, or 0 for neither."""
        places = positions(words(column), self.values, self.missing)
        return np.array([-1, 1, 0], np.float32)[places][:, None]


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One of several values, each with a slot of its own, beside one slot for all others.

    Args:
        name: the name of the column.
        categories: the values that have slots, as texts.
        missing: which of them a missing value stands for; `None` for the slot of all others.
    """

    name: str
    categories: tuple[str, ...]
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_words(self.name, self.categories, self.missing)
        if not self.categories:
            raise ConfigError(f"The column {shown(repr(self.name))} has no categories: give some.")

    @property
    def width(self) -> int:
        """The number of slots, that of all other values included."""
        return len(self.categories) + 1

    def encoded(self, column: Any) -> Encoded:
        """Encode values as 1 in their slot and 0 elsewhere."""
        places = positions(words(column), self.categories, self.missing)
        return np.eye(self.width, dtype=np.float32)[places]


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """A column that nothing is learned from.

    Args:
        name: the name of the column.
    """

    name: str

    @property
    def width(self) -> int:
        """The number of encoded numbers: zero."""
        return 0

    def encoded(self, column: Any) -> Encoded:
        """An empty encoding (N, 0)."""
        return np.empty((len(column), 0), np.float32)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What the columns of a table hold, without its rows.

    Args:
        target: the column to predict.
        classes: the values of the target, in the order of their numbers.
        columns: all other columns, in the order in which they are encoded.
    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[TableColumn, ...]

    def __post_init__(self) -> None:
        _check_words(self.target, self.classes, None)
        if len(self.classes) < 2:
            raise ConfigError(
                f"The target {shown(repr(self.target))} has {len(self.classes)} classes: give two "
                "or more."
            )
        names = [self.target, *(each.name for each in self.columns)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"The schema names the column {shown(repr(twice))} twice.")
        if not self.width:
            raise ConfigError("The schema has no column to learn from: declare some.")

    @property
    def width(self) -> int:
        """How many numbers an encoded row has."""
        return sum(each.width for each in self.columns)

    def without(self, user: str) -> Schema:
        """This schema with the column of users ignored; refused if it learns from that column."""
        declared = {each.name: each for each in self.columns}
        if user not in declared:
            return replace(self, columns=(*self.columns, Ignored(name=user)))
        if declared[user].width:
            raise ConfigError(
                f"The schema learns from the column {shown(repr(user))}, which --user names: "
                "declare it as ignored."
            )
        return self

    def require_columns(self, names: list[str], where: object, *, target: bool) -> None:
        """Refuse a table with other columns than the schema; ignored ones may be absent.

        Args:
            names: the columns of the table.
            where: what the table is called in the refusal.
            target: whether it needs the target; otherwise it may have it.
        """
        needed = [each.name for each in self.columns if each.width]
        lacking = [name for name in [*needed, *[self.target] * target] if name not in names]
        if lacking:
            raise DataError(
                f"{shown(where)} has no column {shown(repr(lacking[0]))}, which the schema has; "
                "give a table with all of them."
            )
        known = {self.target, *(each.name for each in self.columns)}
        unseen = [name for name in names if name not in known]
        if unseen:
            raise DataError(
                f"{shown(where)} has a column {shown(repr(unseen[0]))} that the schema does not "
                "know; leave it out, or declare it, as ignored if nothing is to be learned from it."
            )

    def inputs(self, table: pa.Table) -> Encoded:
        """Encode the rows of a table as numbers (N, width)."""
        parts = [_named(each, table) for each in self.columns if each.width]
        return np.concatenate(parts, axis=1)

    def labels(self, table: pa.Table) -> NDArray[np.int64]:
        """The class number of each row; -1 for a value that is no declared class."""
        places = positions(words(table[self.target]), self.classes, None)
        return np.where(places == len(self.classes), -1, places)


def positions(
    texts: NDArray[np.object_], known: tuple[str, ...], missing: str | None
) -> NDArray[np.int64]:
    """The place of each text among the known ones; their number for an unknown text."""
    places = {text: number for number, text in enumerate(known)}
    if missing is not None:
        places |= {None: places[missing]}  # type: ignore[dict-item]
    return np.array([places.get(text, len(known)) for text in texts], np.int64)


def _named(column: TableColumn, table: pa.Table) -> Encoded:
    try:
        return column.encoded(table[column.name])
    except DataError as error:
        raise DataError(
            f"The column {shown(repr(column.name))} cannot be read: {error}; declare it as ignored."
        ) from None


def _check_words(name: str, values: tuple[str, ...], missing: str | None) -> None:
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"The column {shown(repr(name))} has the value {shown(repr(twice))} twice."
        )
    if missing is not None and missing not in values:
        raise ConfigError(
            f"Missing values of {shown(repr(name))} are taken for {shown(repr(missing))}: give one "
            "of its values."
        )
