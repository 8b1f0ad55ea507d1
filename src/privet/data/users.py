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


_WHOLE = 2.0**53  # from here on, floating-point numbers leave whole ones out


def user_ids(table: pa.Table, column: str, where: object) -> NDArray[np.str_]:
    """The user of each row, as a text.

    Args:
        table: a table with a column of ids.
        column: the name of that column.
        where: what the table is called in refusals.
    """
    told = f"the column {shown(repr(column))}"
    if column not in table.column_names:
        raise DataError(
            f"{shown(where)} has no column {shown(repr(column))} of users; its columns are "
            f"{shown(', '.join(table.column_names))}."
        )
    _refuse_rounded(table[column], told, where)
    try:
        ids = words(table[column])
    except DataError as error:
        raise DataError(f"Users cannot be read from {told} of {shown(where)}: {error}.") from None
    if any(each is None for each in ids):
        raise DataError(
            f"{shown(where)} has rows without a value in {told} of users; give every row one."
        )
    return np.array(ids.tolist(), dtype=np.str_)


def _refuse_rounded(column: pa.ChunkedArray, told: str, where: object) -> None:
    """Refuse fractional ids of 2^53 or more: rounding could merge two users or split one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return
    most = pc.max(pc.abs(column.cast(pa.float64()))).as_py()
    if most is not None and not most < _WHOLE:
        raise DataError(
            f"Users cannot be read from {told} of {shown(where)}: numbers of 2^53 or more were "
            "rounded there; save ids as whole numbers or texts."
        )
