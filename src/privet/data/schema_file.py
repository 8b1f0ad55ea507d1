"""Schemas of tables as JSON files, which people write and `privet data schema` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from privet import plain_json
from privet.data.guard import reading, shown
from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema, TableColumn
from privet.data.tables import words
from privet.errors import DataError
from privet.paths import as_path

COLUMN_KINDS: Mapping[str, type] = {
    "numeric": Numeric,
    "binary": Binary,
    "categorical": Categorical,
    "ignored": Ignored,
}
MADE_OF = "made_of"
"""The key of a file under which it says which table it was made of."""
RELEASED = "released"
"""The key of a file under which it says whether that table was a private release."""


class SchemaOrigin(NamedTuple):
    """The table that a schema was made of, and whether it was a private release."""

    place: str
    released: bool


def read_schema(path: str | Path) -> Schema:
    """Read a schema from a JSON file."""
    file = as_path(path)
    if not file.is_file():
        raise DataError(f"{shown(file)} is no file; give a schema, as 'privet data schema' makes.")
    return schema_from_json(_body(file), shown(file))


def origin_of_schema(path: str | Path) -> SchemaOrigin | None:
    """What a file says it was made of; None if somebody wrote it."""
    body = _body(as_path(path))
    if not isinstance(body, Mapping) or body.get(MADE_OF) is None:
        return None
    return SchemaOrigin(str(body[MADE_OF]), bool(body.get(RELEASED)))


def _body(file: Path) -> Any:
    with reading(file, "schema in JSON"):
        return plain_json.read(file)


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """A schema as plain JSON values."""
    return {
        "target": schema.target,
        "classes": list(schema.classes),
        "columns": [_plain(each) for each in schema.columns],
    }


def schema_from_json(body: Any, where: str = "the schema") -> Schema:
    """Read a schema from JSON values of `schema_to_json`, or from what somebody wrote."""
    _check_keys(body, ("target", "classes", "columns"), (MADE_OF, RELEASED), where)
    return Schema(
        target=str(body["target"]),
        classes=_texts(body["classes"], where),
        columns=tuple(_column(each, where) for each in _listed(body["columns"], where)),
    )


def _plain(column: TableColumn) -> dict[str, Any]:
    kind = next(name for name, cls in COLUMN_KINDS.items() if type(column) is cls)
    values = {name: getattr(column, name) for name in _field_names(type(column))}
    plain = {name: list(each) if isinstance(each, tuple) else each for name, each in values.items()}
    return {"kind": kind, **{name: each for name, each in plain.items() if each is not None}}


def _column(body: Any, where: str) -> TableColumn:
    _check_keys(body, ("kind", "name"), None, f"A column of {where}")
    told = f"The column {shown(repr(body['name']))} of {where}"
    kind = COLUMN_KINDS.get(str(body["kind"]))
    if kind is None:
        known = ", ".join(COLUMN_KINDS)
        raise DataError(f"{told} is of kind {shown(repr(body['kind']))}; choose {known}.")
    needed = [name for name in _field_names(kind) if name != "missing"]
    optional = ["missing"] * ("missing" in _field_names(kind))
    given = {name: each for name, each in body.items() if name != "kind"}
    _check_keys(given, needed, optional, told)
    made: TableColumn = kind(
        **{name: _value(kind, name, each, told) for name, each in given.items()}
    )
    return made


def _value(kind: type, name: str, value: Any, told: str) -> Any:
    if name == "name":
        return str(value)
    if name in ("values", "categories"):
        return _texts(value, told)
    if value is None and name == "missing":
        return None
    if kind is not Numeric:
        return _texts([value], told)[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{told} has {name} {shown(repr(value))}; give a number.")
    return float(value)


def _texts(values: Any, told: str) -> tuple[str, ...]:
    """Values as a table writes them, so that 1, 1.0 and "1" are one category."""
    import pyarrow as pa

    texts = [None if each is None else str(each) for each in _listed(values, told)]
    try:
        found = words(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        raise DataError(f"{told} has a value that is no text; write it in UTF-8.") from None
    if any(each is None for each in found):
        raise DataError(f"{told} lists a missing value; leave it out.")
    return tuple(map(str, found))


def _listed(values: Any, told: str) -> list[Any]:
    if not isinstance(values, list):
        raise DataError(f"{told} has {shown(repr(values))} where a list should be.")
    return values


def _check_keys(body: Any, needed: Any, optional: Any, told: str) -> None:
    """Refuse an object without the needed keys, or with others unless `optional` is `None`."""
    if not isinstance(body, Mapping):
        raise DataError(f"{told} is no JSON object; give one with {', '.join(needed)}.")
    for name in needed:
        if name not in body:
            raise DataError(f"{told} has no {name!r}; give one.")
    odd = [name for name in body if optional is not None and name not in (*needed, *optional)]
    if odd:
        raise DataError(f"{told} has an unknown {shown(repr(odd[0]))}; leave it out.")


def _field_names(cls: Any) -> list[str]:
    return [each.name for each in fields(cls)]
