"""A synthetic table that anyone may use, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privet.data.schema import Schema
from privet.privacy.certificate import Certificate

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SyntheticRows:
    """A synthetic table that a run made.

    Args:
        table: an Arrow table with the columns of the schema that are not ignored.
        schema: the schema of the private table, which is public.
        certificate: the certificate of the run.
        folder: the folder of its files.
    """

    table: pa.Table
    schema: Schema
    certificate: Certificate
    folder: Path

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        promise = self.certificate.guarantee if self.certificate.private else "NOT private"
        columns = len(self.table.column_names)
        return f"SyntheticRows({len(self):,} rows of {columns} columns, {promise})"

    @property
    def statement(self) -> str:
        """The guarantee of the rows in words."""
        return self.certificate.statement
