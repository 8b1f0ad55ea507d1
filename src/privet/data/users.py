"""Whose rows are whose: the column of a table that names users, where all of a user's rows are one.

Ids are texts that mean the same in every file, as all values of a table are. A row of nobody would
be protected as nobody's, so it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privet.data.guard import shown
from privet.data.tables import words
from privet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def user_ids(table: pa.Table, column: str, where: object) -> NDArray[np.str_]:
    """Whose each row is.

    Args:
        table: with a column of ids.
        column: its name.
        where: the table, for refusals.
    """
    told = f"the column {shown(repr(column))}"
    if column not in table.column_names:
        raise DataError(
            f"{shown(where)} has no column {shown(repr(column))} of users; its columns are "
            f"{shown(', '.join(table.column_names))}."
        )
    try:
        ids = words(table[column])
    except DataError as error:
        raise DataError(f"Users cannot be read from {told} of {shown(where)}: {error}.") from None
    if any(each is None for each in ids):
        raise DataError(
            f"{shown(where)} has rows without a value in {told} of users; give every row one."
        )
    return np.array(ids.tolist(), dtype=np.str_)
