"""Tables from CSV and Parquet files: columns by name, nothing guessed from what is in them.

The values of a CSV file stay texts until a schema says what they are, so that no type, bound or
category is ever inferred from private rows. Names and stored types of columns are public.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.guard import GIB, reading, refuse_bomb, shown
from privet.errors import DataError
from privet.paths import as_path

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

MISSING = ("", "?", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null")
"""Texts that mean that there is no value."""

SUFFIXES = (".csv", ".parquet", ".jsonl")
"""Of files that are tables."""
_KINDS = ".csv, .parquet or .jsonl"
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_TRUTHS = ("true", "false")


def read_table(source: str | Path, *, max_bytes: int = 64 * GIB) -> pa.Table:
    """All columns of a CSV file or of JSON lines, as texts, or of a Parquet file, as stored.

    Args:
        source: a .csv file whose first line names the columns, a .jsonl file with an object on
            each line, or a .parquet file.
        max_bytes: declared bytes above which a Parquet header is not believed.
    """
    path = as_path(source)
    if not path.is_file():
        raise DataError(f"{shown(path)} is no file; give a table as {_KINDS}.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{shown(path)} is no table that Privet reads; give {_KINDS}.")
    with reading(path, "table"):
        if suffix == ".parquet":
            return checked(_read_parquet(path, max_bytes), path)
        return checked(_read_csv(path) if suffix == ".csv" else _read_json_lines(path), path)


def checked(table: pa.Table, where: object) -> pa.Table:
    """The table itself; refused without rows or columns, or if two columns share a name."""
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{shown(where)} has two columns {shown(repr(twice))}; rename one.")
    if not names or not table.num_rows:
        raise DataError(f"{shown(where)} has no rows; give a table that has some.")
    return table


def table_of(rows: Any) -> pa.Table:
    """Make a table of whatever holds one: a file, a row or rows as mappings, columns of Arrow.

    Args:
        rows: the path of a file, a mapping from names to values (one row), a list of them, or
            anything that gives Arrow its columns, such as a data frame.
    """
    import pyarrow as pa

    if isinstance(rows, str | Path):
        return read_table(rows)
    if isinstance(rows, pa.Table):
        return checked(rows, "the table")
    if isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(rows, Sequence):
        return _from_mappings(rows)
    with reading("what was given", "table"):
        return checked(pa.table(rows), "the table")


def words(column: Any) -> NDArray[np.object_]:
    """Values of a column as texts that mean the same in every file; `None` where one is missing."""
    import pyarrow as pa

    whole = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    kind = whole.type.value_type if pa.types.is_dictionary(whole.type) else whole.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"it holds {kind} and no plain values")
    encoded = whole.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    known = np.array([*map(_word, encoded.dictionary.to_pylist()), None], dtype=object)
    found: NDArray[np.object_] = known[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def numbers(column: Any) -> NDArray[np.float64]:
    """Values of a column as numbers; NaN where one is missing."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        found: NDArray[np.float64] = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
        return found
    texts = words(column)
    known = {each: _number(each) for each in set(texts)}
    return np.array([known[each] for each in texts], np.float64)


def _word(value: object) -> str | None:
    """A value as a text: 1.0 becomes 1, True becomes true, and outer spaces are dropped."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    if text in MISSING:
        return None
    if text.lower() in _TRUTHS:
        return text.lower()
    match = _WHOLE.fullmatch(text)
    return match[1] if match else text


def _number(text: str | None) -> float:
    try:
        return float("nan") if text is None else float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(str(text), float("nan"))


def _from_mappings(rows: Sequence[Any]) -> pa.Table:
    import pyarrow as pa

    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise DataError("these are no rows of a table; give mappings from columns to values.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        if not all(name in row for row in rows):
            raise DataError(f"a row lacks the column {shown(repr(name))}; give every row one.")
        if any(isinstance(row[name], Mapping | list | tuple) for row in rows):
            raise DataError(
                f"the column {shown(repr(name))} holds lists or objects; give plain values."
            )
    texts = {
        str(name): [None if row[name] is None else str(row[name]) for row in rows] for name in names
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in texts.items()})


def _read_csv(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), [])
    if not any(name.strip() for name in names):
        raise DataError(f"{shown(path)} is empty; its first line should name the columns.")
    unnamed = next((number for number, name in enumerate(names, 1) if not name.strip()), None)
    if unnamed is not None:
        raise DataError(f"Column {unnamed} of {shown(path)} has no name; give it one.")
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=list(MISSING),
            strings_can_be_null=True,
        ),
    )
    return table.rename_columns([name.strip() for name in table.column_names])


def _read_json_lines(path: Path) -> pa.Table:
    with path.open(encoding="utf-8-sig") as file:
        return _from_mappings([json.loads(line) for line in file if line.strip()])


def _read_parquet(path: Path, max_bytes: int) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        groups = range(file.num_row_groups)
        declared = sum(file.metadata.row_group(each).total_byte_size for each in groups)
        refuse_bomb(path, declared=declared, stored=path.stat().st_size, max_bytes=max_bytes)
        table = file.read()
        table.validate(full=True)
        return table
