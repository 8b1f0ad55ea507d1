"""Rows of a table and the schema that tells what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privet.data.column import Column
from privet.data.guard import shown
from privet.data.schema import Schema
from privet.data.tables import words
from privet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class TableSet:
    """Rows of a table that are encoded as numbers when their columns are asked for.

    Args:
        table: the rows, with the columns of the schema.
        schema: what the columns hold.
        where: what the table is called in refusals.
    """

    table: pa.Table
    schema: Schema
    where: str = "the table"

    def __post_init__(self) -> None:
        self.schema.require_columns(self.table.column_names, self.where, target=True)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"TableSet({self.schema.width} numbers a row, {self.num_classes} classes)"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of the target."""
        return self.schema.classes

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.schema.classes)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class number of each row; -1 for a value that is no declared class."""
        return self.schema.labels(self.table)

    @cached_property
    def inputs(self) -> NDArray[np.float32]:
        """The rows encoded as numbers (N, width)."""
        return self.schema.inputs(self.table)

    def columns(self) -> dict[str, Column]:
        """Inputs and labels, under the names by which training asks for them."""
        return {"images": self.inputs, "labels": self.labels}

    def with_known_classes(self) -> TableSet:
        """This set; refused if a row, none of which is private, has no declared class."""
        unknown = np.flatnonzero(self.labels < 0)
        if not len(unknown):
            return self
        value = words(self.table[self.schema.target])[unknown[0]]
        told = "no value" if value is None else f"the value {shown(repr(value))}"
        raise DataError(
            f"{shown(self.where)} has rows with {told} in {shown(repr(self.schema.target))}, which "
            "is no declared class: leave them out, or declare it in a --schema."
        )


def strata(table: pa.Table, target: str, where: str) -> NDArray[np.int64]:
    """A number for each value of the target, to split rows class by class."""
    if target not in table.column_names:
        raise DataError(
            f"{shown(where)} has no column {shown(repr(target))} to predict; its columns are "
            f"{shown(', '.join(table.column_names))}."
        )
    texts = np.array(["" if text is None else text for text in words(table[target])])
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)
