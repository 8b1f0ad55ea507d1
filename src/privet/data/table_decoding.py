"""From numbers that a generator made back to rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.schema import Binary, Categorical, Numeric, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def decoded(
    schema: Schema, rows: NDArray[Any], labels: NDArray[np.int64], generator: np.random.Generator
) -> pa.Table:
    """Turn encoded rows into a table with all columns of the schema that are not ignored.

    Args:
        schema: the schema of the table.
        rows: (N, width) as `Schema.inputs` gives them, or shares in the place of ones and zeros.
        labels: the class number of each row.
        generator: for draws among shares.
    """
    import pyarrow as pa

    found: dict[str, Any] = {}
    place = 0
    for column in schema.columns:
        own = rows[:, place : place + column.width].astype(np.float64)
        place += column.width
        if isinstance(column, Numeric):
            share = (np.clip(own[:, 0], -1, 1) + 1) / 2
            values = column.low + share * (column.high - column.low)
            found[column.name] = pa.array(np.clip(values, column.low, column.high))
        elif isinstance(column, Binary):
            second = generator.random(len(own)) < (own[:, 0] + 1) / 2
            found[column.name] = pa.array(np.array(column.values)[second.astype(int)].tolist())
        elif isinstance(column, Categorical):
            names = [*column.categories, None]
            found[column.name] = pa.array([names[each] for each in _drawn(own, generator)])
    found[schema.target] = pa.array([schema.classes[each] for each in labels])
    return pa.table(found)


def _drawn(shares: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw one slot for each row, with probabilities in proportion to its shares."""
    ends = np.cumsum(shares, axis=1)
    wanted = generator.random((len(shares), 1)) * ends[:, -1:]
    found: NDArray[np.int64] = np.minimum((ends <= wanted).sum(1), shares.shape[1] - 1)
    return found
