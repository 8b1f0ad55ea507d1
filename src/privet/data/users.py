"""Whose rows are whose: the column of a table that names users, where all of a user's rows are one.

Ids are texts that mean the same in every file, as all values of a table are. A row of nobody would
be protected as nobody's, so it is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from privet.data.guard import shown
from privet.data.tables import words
from privet.errors import DataError, PrivacyError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


# From here on, floating-point numbers of so many bits leave whole ones out.
_WHOLE = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}
_DECIMAL = re.compile(r"[+-]?\d+\.\d*")
# As programs write numbers, and not as people write names: 1.5e18 or 1e+18, and not 12e45.
_ROUNDED = re.compile(r"[+-]?\d+(\.\d*e\+?|e\+)\d+", re.IGNORECASE)


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


def require_other_users(
    name: str, users: NDArray[np.str_], others: NDArray[np.str_] | None
) -> list[str]:
    """Refuse another set that has rows of private users; return a sentence if it does not say so.

    Args:
        name: what the other set is for.
        users: whose the private rows are.
        others: whose the rows of the other set are; `None` if it does not say.
    """
    if others is None:
        return [
            f"The {name} rows do not say whose they are: this run takes your word that they are of "
            "no private user."
        ]
    if np.isin(others, users).any():
        raise PrivacyError(
            f"The {name} rows are of users whose other rows are private, and a user is protected "
            "with all rows or with none: leave those users out of one of both."
        )
    return []


def _refuse_rounded(column: pa.ChunkedArray, told: str, where: object) -> None:
    """Refuse numbers that may have been whole ones: rounding could merge two users or split one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, rounded = column.type, False
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_floating(kind):
        most = pc.max(pc.abs(column.cast(pa.float64()))).as_py()
        rounded = most is not None and not most < _WHOLE[kind.bit_width]
    elif kind in (pa.string(), pa.large_string(), pa.string_view()):
        texts = (each for each in column.unique().to_pylist() if each is not None)
        rounded = any(_is_rounded(each.strip()) for each in texts)
    if rounded:
        raise DataError(
            f"Users cannot be read from {told} of {shown(where)}: large numbers may have "
            "been rounded there; save ids as whole numbers or texts."
        )


def _is_rounded(text: str) -> bool:
    """Whether a text is a number as files have it that were floating-point numbers before."""
    large = _DECIMAL.fullmatch(text) is not None and abs(float(text)) >= _WHOLE[64]
    return large or _ROUNDED.fullmatch(text) is not None
