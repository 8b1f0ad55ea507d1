"""A schema from public rows: bounds, categories and classes as they are found there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from privet.data.guard import shown
from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema, TableColumn
from privet.data.tables import numbers, words
from privet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CATEGORIES = 100
_MOST_CLASSES = 1000
_FEW = 20  # different texts, below which a column is no column of names


def schema_of(table: pa.Table, target: str, where: object) -> tuple[Schema, list[str]]:
    """Make a schema from a public table; return it with notes on what is not obvious.

    Args:
        table: public rows.
        target: the column to predict.
        where: what the table is called in refusals.
    """
    if target not in table.column_names:
        raise DataError(
            f"{shown(where)} has no column {shown(repr(target))} to predict; its columns are "
            f"{shown(', '.join(table.column_names))}."
        )
    notes: list[str] = []
    columns = [_column(name, table, notes) for name in table.column_names if name != target]
    return Schema(target=target, classes=_classes(table, target), columns=tuple(columns)), notes


def in_order(texts: set[str]) -> tuple[str, ...]:
    """Sort texts: numbers by value first, then all else alphabetically."""

    def key(text: str) -> tuple[int, float, str]:
        try:
            return 0, float(text), text
        except ValueError:
            return 1, 0.0, text

    return tuple(sorted(texts, key=key))


def _classes(table: pa.Table, target: str) -> tuple[str, ...]:
    found = {text for text in words(table[target]) if text is not None}
    if len(found) > _MOST_CLASSES:
        raise DataError(
            f"The column {shown(repr(target))} has more than {_MOST_CLASSES:,} values in the "
            "public rows; choose a --target that has classes."
        )
    return in_order(found)


def _column(name: str, table: pa.Table, notes: list[str]) -> TableColumn:
    """Decide what a column is: two values are binary, numbers numeric, other texts categorical."""
    told = f"The column {shown(repr(name))}"
    try:
        found = [text for text in words(table[name]) if text is not None]
    except DataError as error:
        notes.append(f"{told} is ignored: {error}.")
        return Ignored(name=name)
    counts = Counter(found)
    if not counts:
        notes.append(f"{told} is ignored: the public rows have no value of it.")
        return Ignored(name=name)
    if len(counts) == 2:
        first, second = in_order(set(counts))
        return Binary(name=name, values=(first, second))
    values = numbers(table[name])
    finite = values[np.isfinite(values)]
    if len(counts) > 2 and len(finite) == len(found):
        return Numeric(name=name, low=float(finite.min()), high=float(finite.max()))
    if len(counts) > max(_FEW, len(found) / 2):
        notes.append(f"{told} is ignored: nearly every public row has a value of its own.")
        return Ignored(name=name)
    if len(counts) > MOST_CATEGORIES:
        notes.append(f"{told} keeps its {MOST_CATEGORIES} most frequent public values.")
    kept = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    return Categorical(name=name, categories=in_order(set(kept)))
