"""Parquet in the layout that Hugging Face `datasets` writes: encoded images and class labels."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.encoded import read_encoded
from privet.data.guard import reading, refuse_bomb, shown
from privet.data.image_set import ImageSet
from privet.data.labels import as_labels, names_for
from privet.data.rows import Blobs, EncodedRows, GroupedBlobs, HeldBlobs, binary_column
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyarrow.parquet import ParquetFile

    from privet.data.options import Options

_IMAGES = ("image", "img")
_LABELS = ("label", "labels")
_SHARD_NAME = re.compile(r"(?P<part>.+)-\d+-of-\d+\.parquet")


@dataclass(frozen=True, eq=False)
class Shard:
    """The images and labels that one file adds to a set."""

    path: Path
    blobs: Blobs
    labels: NDArray[Any] | None
    class_names: tuple[str, ...] | None


def read_parquet(path: Path, options: Options) -> ImageSet:
    """Read a set from one Parquet file."""
    if options.part is not None:
        raise DataError(f"{shown(path)} is one part; leave --part (part=) out or give its folder.")
    return _read_files([path], options)


def read_parquet_folder(folder: Path, options: Options) -> ImageSet:
    """Read all files of a folder, or those of one part if named `train-00000-of-00001`."""
    return _read_files(_of_part(folder, options.part), options)


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files that a path stands for, in order; none if it is something else."""
    if path.is_dir():
        return _of_part(path, None)
    return [path] if path.suffix.lower() == ".parquet" else []


def _of_part(folder: Path, part: str | None) -> list[Path]:
    paths = sorted(folder.glob("*.parquet"))
    parts = {path: match["part"] for path in paths if (match := _SHARD_NAME.fullmatch(path.name))}
    names = sorted(set(parts.values()))
    if len(names) > 1 or part is not None:
        wanted = part or "train"
        if wanted not in names:
            known = shown(" or ".join(names)) or "none, since no file is named train-0-of-1.parquet"
            raise DataError(f"{shown(folder)} has no part {wanted!r}; choose {known}.")
        paths = [path for path in paths if parts.get(path) == wanted]
    return paths


def from_shards(shards: list[Shard], options: Options) -> ImageSet:
    """Join shards in order; the first one's class names count."""
    first = shards[0]
    ends = tuple(accumulate(len(shard.blobs) for shard in shards))
    if not ends[-1]:
        raise DataError(f"{shown(first.path)} has no rows; give a file that holds images.")
    names = tuple(shown(shard.path) for shard in shards)
    encoded = EncodedRows(names, tuple(shard.blobs for shard in shards), ends)
    found = [shard.labels for shard in shards if shard.labels is not None]
    if not found:
        return ImageSet(read_encoded(encoded, options))
    labels = as_labels(np.concatenate(found), count=len(encoded), where=first.path)
    class_names = names_for(labels, first.class_names, where=first.path)
    return ImageSet(read_encoded(encoded, options), labels, class_names)


def from_table(table: pa.Table, path: Path) -> Shard:
    """A shard whose images are already in memory or mapped."""
    blobs = binary_column(table.select([_image_name(table.column_names, path)]), path)
    return Shard(path, HeldBlobs(blobs), _labels(table, path), _class_names(table, path))


def _read_files(paths: list[Path], options: Options) -> ImageSet:
    declared = {path: _declared_bytes(path, options) for path in paths}
    held = sum(declared.values()) <= options.memory_limit
    return from_shards([_read_file(path, held=held) for path in paths], options)


def _declared_bytes(path: Path, options: Options) -> int:
    """How large the file says it is, once that has been found possible."""
    import pyarrow.parquet as pq

    with reading(path, "Parquet file"), pq.ParquetFile(path) as file:
        stored, rows = path.stat().st_size, file.metadata.num_rows
        if rows > stored:
            raise DataError(f"{shown(path)} declares {rows:,} rows in {stored:,} bytes; remake it.")
        sizes = [file.metadata.row_group(each).total_byte_size for each in _groups(file)]
        refuse_bomb(path, declared=sum(sizes), stored=stored, max_bytes=options.max_bytes)
        return sum(sizes)


def _read_file(path: Path, *, held: bool) -> Shard:
    import pyarrow.parquet as pq

    with reading(path, "Parquet file"), pq.ParquetFile(path) as file:
        image_name = _image_name(file.schema_arrow.names, path)
        names = [name for name in file.schema_arrow.names if name in _LABELS]
        table = file.read([image_name, *names] if held else names)
        table.validate(full=True)
        if held:
            return from_table(table, path)
        ends = accumulate(file.metadata.row_group(each).num_rows for each in _groups(file))
        blobs = GroupedBlobs(path, image_name, tuple(ends) or (0,))
        return Shard(path, blobs, _labels(table, path), _class_names(table, path))


def _groups(file: ParquetFile) -> range:
    return range(file.num_row_groups)


def _image_name(names: list[str], path: Path) -> str:
    name = next((name for name in _IMAGES if name in names), None)
    if name is None:
        raise DataError(f"{shown(path)} has no column 'image'; rename the one with the images.")
    return name


def _labels(table: pa.Table, path: Path) -> NDArray[Any] | None:
    name = next((name for name in _LABELS if name in table.column_names), None)
    if name is None:
        return None
    column = table.column(name)
    if column.null_count:
        raise DataError(f"{shown(path)} has rows without a label; label them or leave them out.")
    return np.asarray(column.to_numpy())


def _class_names(table: pa.Table, path: Path) -> tuple[str, ...] | None:
    """The names that `datasets` keeps, as JSON, in the schema's metadata."""
    raw = (table.schema.metadata or {}).get(b"huggingface")
    if raw is None:
        return None
    with reading(path, "Parquet file with the metadata of datasets"):
        features = json.loads(raw)["info"]["features"]
        feature: dict[str, Any] = next((features[name] for name in _LABELS if name in features), {})
        names = feature.get("names")
        return None if names is None else tuple(str(name) for name in names)
