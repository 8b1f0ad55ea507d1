"""Encoded images in the rows of Arrow columns, held in memory or read a row group at a time."""

from __future__ import annotations

import io
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from privet.data.guard import shown
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


class Blobs(Protocol):
    """A sequence of byte strings; None where a row has none."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> bytes | None: ...


@dataclass(frozen=True, eq=False)
class HeldBlobs:
    """A binary column in memory, or in files that Arrow has mapped."""

    column: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, row: int, /) -> bytes | None:
        content: bytes | None = self.column[row].as_py()
        return content


@dataclass(frozen=True, eq=False)
class GroupedBlobs:
    """A binary column of a Parquet file that is too large to hold."""

    path: Path
    name: str
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, row: int, /) -> bytes | None:
        group, inside = locate(row, self.ends)
        version = self.path.stat().st_mtime_ns  # a file may be replaced
        content: bytes | None = _row_group(self.path, version, self.name, group)[inside].as_py()
        return content


@lru_cache(maxsize=2)
def _row_group(path: Path, version: int, name: str, group: int) -> pa.ChunkedArray:
    """Read one row group of a file; two are cached, so that reading in order reads each once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read_row_group(group, [name])
    table.validate(full=True)
    return binary_column(table, path)


def binary_column(table: pa.Table, where: object) -> pa.ChunkedArray:
    """The bytes of the only column: plain, or the field of a struct as `datasets` writes it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(0)
    if pa.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = pc.struct_field(column, "bytes")
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        raise DataError(
            f"{shown(where)} has images of Arrow type {shown(column.type)}; store encoded PNG,"
            " JPEG or WebP bytes."
        )
    return column


def locate(row: int, ends: tuple[int, ...]) -> tuple[int, int]:
    """Which piece a row is in, and where in that piece."""
    piece = bisect_right(ends, row)
    return piece, row - (ends[piece - 1] if piece else 0)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded images in the rows of one or several files."""

    names: tuple[str, ...]
    blobs: tuple[Blobs, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return self.ends[-1]

    def name(self, row: int) -> str:
        """The file and the row in it."""
        which, inside = locate(row, self.ends)
        return f"{self.names[which]}, row {inside},"

    def open(self, row: int) -> io.BytesIO:
        """The bytes of the row."""
        which, inside = locate(row, self.ends)
        content = self.blobs[which][inside]
        if content is None:
            raise DataError(
                f"{self.name(row)} has no image bytes; write the images into the file, not only"
                " their paths."
            )
        return io.BytesIO(content)
