"""From what `--target`, `--schema`, `--public` and `--test` say to sets of table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privet.data.guard import shown
from privet.data.public_schema import schema_of
from privet.data.schema import Schema
from privet.data.schema_file import MADE_OF, origin_of_schema, read_schema
from privet.data.split import divided, divided_by_user
from privet.data.table_set import TableSet, strata
from privet.data.tables import read_table
from privet.data.users import require_other_users, user_ids
from privet.errors import ConfigError, PrivacyError
from privet.paths import overlap
from privet.runs.aside import digests, table_bytes
from privet.runs.data_choice import DataChoice
from privet.runs.made_of import is_release
from privet.runs.origins import Doubt, doubts_of, of_a_release, refuse_private
from privet.runs.sets import Sets

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def is_table(choice: DataChoice) -> bool:
    """Whether the data are a table: a target, a schema or the name of the file says so."""
    named = choice.source.lower().endswith((".csv", ".jsonl"))
    return choice.target is not None or choice.schema is not None or named


def read_table_sets(choice: DataChoice, schema: Schema | None = None) -> Sets[TableSet]:
    """Read private, public and test rows of one schema.

    Guarantees:
        The schema is declared or comes from public rows: private ones are split off before it is
        made, and are not read again until the hedge does.

    Args:
        choice: where rows come from.
        schema: the schema of a run that knows it already; None for a new run.
    """
    _refuse_images(choice)
    declared = None if choice.schema is None else _declared(choice.schema, choice.source)
    target = _target(choice, schema or declared)
    _check_user(choice, target)
    parts, others, users = _parts(choice, target)
    notes = _notes_of_users(choice, users, parts, others)
    schema = schema or declared
    if schema is None:
        if parts["public"] is None:
            raise ConfigError(
                "The bounds and categories of a table are declared or come from public rows, never "
                "from private ones: give --schema ('privet data schema' makes one of a public "
                "table) or --public."
            )
        where = others.get("public", choice.source)
        schema, said = schema_of(_without(parts["public"], choice.user), target, where)
        notes += said
    if choice.user is not None:
        schema = schema.without(choice.user)

    def known(name: str) -> TableSet | None:
        if parts[name] is None:
            return None
        return TableSet(parts[name], schema, _told(name, others)).with_known_classes()

    own = {name: table_bytes(parts[name]) for name in ("public", "test") if name not in others}
    sets = Sets(
        private=TableSet(parts["private"], schema, shown(choice.source)),
        public=known("public"),
        test=known("test"),
        synthetic=_synthetic(choice, schema),
        notes=tuple(notes),
        aside=digests(own, choice.aside),
        users=users,
    )
    return sets.with_doubts(*doubts_of(choice), *_doubts_of_schema(choice.schema))


def _declared(file: str, private: str) -> Schema:
    """Read a schema; refuse one that was made of the private rows."""
    schema, origin = read_schema(file), origin_of_schema(file)
    if origin is not None and overlap(origin.place, private):
        raise PrivacyError(
            f"{shown(file)} was made of the private table, and all that is made with it would show "
            "values of its rows: make one of public rows, or write what everyone knows and leave "
            f"out {MADE_OF!r}."
        )
    return schema


def _doubts_of_schema(file: str | None) -> list[Doubt]:
    origin = None if file is None else origin_of_schema(file)
    if origin is None or not (origin.released or is_release(origin.place)):
        return []
    return [of_a_release("rows of the schema")]


def read_test_table(source: str, schema: Schema) -> TableSet:
    """Read other rows to test on, of the schema that a model knows."""
    return TableSet(read_table(source), schema, shown(source)).with_known_classes()


def _parts(
    choice: DataChoice, target: str
) -> tuple[dict[str, pa.Table | None], dict[str, str], NDArray[np.str_] | None]:
    """Read rows by what they are for; tell which have sources of their own, and whose they are."""
    table = read_table(choice.source)
    shares: dict[str, float | int | None] = {}
    others: dict[str, str] = {}
    for name, part in choice.parts.items():
        if isinstance(part, str):
            refuse_private(name, part, choice.source)
            others[name] = part
        shares[name] = None if isinstance(part, str) else part
    labels, users = strata(table, target, choice.source), None
    if choice.user is None:
        places = divided(labels, **shares, seed=choice.seed)
    else:
        ids = user_ids(table, choice.user, choice.source)
        places = divided_by_user(ids, **shares, seed=choice.seed)
        users = ids[places.private]
    found = {"private": places.private, "public": places.public, "test": places.test}
    parts = {name: None if rows is None else table.take(rows) for name, rows in found.items()}
    parts |= {name: read_table(source) for name, source in others.items()}
    return parts, others, users


def _notes_of_users(
    choice: DataChoice,
    users: NDArray[np.str_] | None,
    parts: dict[str, pa.Table | None],
    others: dict[str, str],
) -> list[str]:
    """Refuse other tables with rows of private users; say of which that is not known."""
    notes: list[str] = []
    if choice.user is None or users is None:
        return notes
    for name, source in others.items():
        table, ids = parts[name], None
        if table is not None and choice.user in table.column_names:
            ids = user_ids(table, choice.user, source)
        notes += require_other_users(name, users, ids)
    return notes


def _synthetic(choice: DataChoice, schema: Schema) -> TableSet | None:
    if choice.synthetic is None:
        return None
    refuse_private("synthetic", choice.synthetic, choice.source)
    return read_test_table(choice.synthetic, schema)


def _target(choice: DataChoice, schema: Schema | None) -> str:
    if schema is None:
        if choice.target is None:
            raise ConfigError("Give --target: the column of the table that is to be predicted.")
        return choice.target
    if choice.target not in (None, schema.target):
        raise ConfigError(
            f"--target is {shown(repr(choice.target))} and the schema's is "
            f"{shown(repr(schema.target))}: give that one, or leave it out."
        )
    return schema.target


def _check_user(choice: DataChoice, target: str) -> None:
    if choice.user == target:
        raise ConfigError(
            f"--user and --target both name the column {shown(repr(target))}: whose a row is "
            "cannot be what is learned."
        )


def _without(table: pa.Table, user: str | None) -> pa.Table:
    return table.drop_columns([user]) if user in table.column_names else table


def _told(name: str, others: dict[str, str]) -> str:
    return shown(others[name]) if name in others else f"The {name} part"


def _refuse_images(choice: DataChoice) -> None:
    for name in ("resize", "channels"):
        if getattr(choice, name) is not None:
            raise ConfigError(f"--{name} is for images, and a table has none: leave it out.")
