"""A synthetic set on disk: Parquet shards that `datasets` opens, each whole or not at all.

A shard is encoded in memory, written to a hidden draft, made durable, then renamed, so that what
has a shard's name is a shard. Pages carry checksums, so that later damage is found.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.disk import check_free_space, write_whole, writing
from privet.data.guard import MIB, reading, shown
from privet.data.image_set import ImageSet
from privet.data.labels import as_labels, names_for
from privet.data.parquet import from_table
from privet.errors import ConfigError, DataError, PrivetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from privet.data.rows import Blobs

_NAME = re.compile(r"part-(\d{5})\.parquet")
_MAX_SHARDS = 100_000
# Arrow counts the bytes of a binary column in 32 bits.
_MAX_BYTES = 2**31 - 1
_GROUP_BYTES = 4 * MIB
_NO_CLASSES = ("images",)


@dataclass(frozen=True, eq=False)
class Piece:
    """One row group of a shard."""

    blobs: Blobs
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]


def write_shard(
    folder: Path,
    number: int,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64] | None,
    class_names: Sequence[str] | None,
    *,
    probabilities: ArrayLike | None = None,
) -> Path:
    """Put images (N, H, W, C), labels and soft labels (N, classes) into `part-00000.parquet`.

    Images without labels are written without a column of them.
    """
    path = folder / shard_name(number)
    with writing(path):
        if path.exists():
            raise ConfigError(f"{shown(path)} exists; go on after the last shard or remove it.")
    data = ImageSet(images, labels, None if class_names is None else tuple(class_names))
    _check(data, path)
    soft = None if probabilities is None else _soft_labels(probabilities, data, path)
    content = _parquet_bytes(_table(data, soft), data.image_shape)
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    check_free_space(folder, len(content))
    write_whole(path, content)
    return path


def read_shards(folder: Path) -> tuple[int, ...]:
    """The rows of each whole shard, in order, so that a run goes on at the number of them.

    Drafts that a killed process left are removed: call it only where no other process writes.
    """
    with writing(folder):
        for draft in folder.glob(".part-*.parquet.part"):
            draft.unlink()
    return row_counts(folder)


def row_counts(folder: Path) -> tuple[int, ...]:
    """The rows of each shard, in order; refused if one is damaged, missing or another set's."""
    found = _names(folder)
    names = [shard_name(number) for number in range(len(found))]
    missing = next((name for name in names if name not in found), None)
    if missing is not None:
        raise DataError(
            f"{shown(folder / missing)} is missing between other shards; remove those after it."
        )
    schemas = [_schema(folder / name) for name in names]
    for name, schema in zip(names, schemas, strict=True):
        if not schema.equals(schemas[0], check_metadata=True):
            raise DataError(
                f"{shown(folder / name)} has other columns or classes than {names[0]}; keep one set"
                " in a folder."
            )
    return tuple(sum(len(each.blobs) for each in pieces(folder / name)) for name in names)


def pieces(path: Path) -> Iterator[Piece]:
    """Yield the row groups of a shard, one at a time, with their checksums verified."""
    import pyarrow.parquet as pq

    with _reading_shard(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            table.validate(full=True)
            yield _piece(table, path)


def num_rows(folder: Path) -> int:
    """How many images the footers of all shards promise."""
    import pyarrow.parquet as pq

    total = 0
    for name in _names(folder):
        with _reading_shard(folder / name):
            total += pq.read_metadata(folder / name).num_rows
    return total


def class_counts(folder: Path, num_classes: int) -> NDArray[np.int64]:
    """How many images of each class all shards hold; only labels are read."""
    counts = np.zeros(num_classes, np.int64)
    for labels in _column(folder, "label"):
        known = as_labels(labels.to_numpy(), count=len(labels), where=folder)
        found = np.bincount(known, minlength=num_classes)
        if len(found) > num_classes:
            raise DataError(f"{shown(folder)} has labels of no class; make its shards again.")
        counts += found
    return counts


def soft_labels(folder: Path) -> Iterator[NDArray[np.float32]]:
    """Yield the class probabilities of all images by row group; nothing if there are none."""
    for probabilities in _column(folder, "probabilities"):
        with _reading_shard(folder):
            flat = probabilities.combine_chunks().flatten().to_numpy()
            soft = flat.astype(np.float32, copy=False).reshape(len(probabilities), -1)
        yield soft


def largest_shard(count: int, image_shape: tuple[int, int, int], *, probabilities: int = 0) -> int:
    """Bytes that `count` images, with so many probabilities each, take whatever they show."""
    height, width, channels = image_shape
    pixels = height * (1 + width * channels)
    # Deflate adds little to what it cannot shrink; the rest is headers, the label and the schema.
    return count * (pixels + pixels // 100 + 256 + 8 * probabilities) + MIB


def shard_name(number: int) -> str:
    """The file name of a shard."""
    if not 0 <= number < _MAX_SHARDS:
        raise ConfigError(f"shard {number} is outside 0 to {_MAX_SHARDS - 1}; make shards larger.")
    return f"part-{number:05d}.parquet"


def is_shard(name: str) -> bool:
    """Whether a file name is that of a shard."""
    return _NAME.fullmatch(name) is not None


def _check(data: ImageSet, path: Path) -> None:
    names = data.class_names or ()
    if not len(data):
        raise DataError(f"{shown(path)} would have no rows; give at least one image.")
    _check_names(names, f"{shown(path)} would have")
    if largest_shard(len(data), data.image_shape) > _MAX_BYTES:
        raise ConfigError(f"{shown(path)} would be over 2 GiB; put fewer images into a shard.")


def _check_names(names: Sequence[str], told: str) -> None:
    """Refuse equal class names: each class has its own name, and with it its folder."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{told} two classes {shown(twice)!r}; rename one.")


def _soft_labels(raw: ArrayLike, data: ImageSet, path: Path) -> NDArray[np.float32]:
    soft = np.asarray(raw, np.float64)
    if soft.shape != (len(data), data.num_classes):
        raise DataError(
            f"{shown(path)} would have probabilities of shape {soft.shape}; give"
            f" {(len(data), data.num_classes)}, a row an image and a column a class."
        )
    if not ((soft >= 0).all() and np.allclose(soft.sum(1), 1, rtol=0, atol=1e-3)):
        raise DataError(
            f"{shown(path)} would have probabilities that are negative, not finite or do not sum"
            " to 1; normalise each row."
        )
    return soft.astype(np.float32)


def _table(data: ImageSet, soft: NDArray[np.float32] | None) -> pa.Table:
    """The columns, with the features that `datasets` looks for in the schema's metadata."""
    import pyarrow as pa

    encoded = pa.array(_png_bytes(data.images[:]), pa.binary())
    image = pa.StructArray.from_arrays(
        [encoded, pa.nulls(len(data), pa.string())],
        fields=[pa.field("bytes", pa.binary()), pa.field("path", pa.string())],
    )
    columns = {"image": image}
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    if data.labels is not None:
        columns["label"] = pa.array(data.labels, pa.int64())
        features["label"] = {"names": list(data.class_names or ()), "_type": "ClassLabel"}
    if soft is not None:
        ends = np.arange(len(data) + 1, dtype=np.int32) * np.int32(soft.shape[1])
        columns["probabilities"] = pa.ListArray.from_arrays(pa.array(ends), pa.array(soft.ravel()))
        # Every version of datasets knows Sequence; those from 4 on take it for their List.
        value = {"dtype": "float32", "_type": "Value"}
        features["probabilities"] = {"feature": value, "_type": "Sequence"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.table(columns).replace_schema_metadata(metadata)


def _png_bytes(images: NDArray[np.uint8]) -> list[bytes]:
    squeezed = images[..., 0] if images.shape[3] == 1 else images
    return [_png(picture) for picture in np.ascontiguousarray(squeezed)]


def _png(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _parquet_bytes(table: pa.Table, image_shape: tuple[int, int, int]) -> memoryview:
    """Write a table as the bytes of a Parquet file.

    PNG is compressed already, and equal images must not share bytes: readers distrust that.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    labels = [name for name in table.column_names if name == "label"]
    pq.write_table(
        table,
        sink,
        row_group_size=max(1, _GROUP_BYTES // int(np.prod(image_shape))),
        compression="none",
        use_dictionary=labels,
        write_statistics=labels,
        write_page_checksum=True,
    )
    return memoryview(sink.getvalue())


def _column(folder: Path, name: str) -> Iterator[pa.ChunkedArray]:
    """Yield one column of all shards by row group; nothing where there is no such column."""
    import pyarrow.parquet as pq

    for path in (folder / shard_name(number) for number in range(len(_names(folder)))):
        with _reading_shard(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            groups = range(file.num_row_groups) if name in file.schema_arrow.names else ()
            for group in groups:
                table = file.read_row_group(group, [name])
                table.validate(full=True)
                yield table.column(name)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("part-*.parquet") if is_shard(path.name)}


def _schema(path: Path) -> pa.Schema:
    import pyarrow.parquet as pq

    with _reading_shard(path), pq.ParquetFile(path) as file:
        return file.schema_arrow


def _piece(table: pa.Table, path: Path) -> Piece:
    shard = from_table(table, path)
    if shard.labels is None:
        return Piece(shard.blobs, np.zeros(len(shard.blobs), np.int64), _NO_CLASSES)
    if shard.class_names is None:
        raise DataError(f"{shown(path)} has labels and no class names; make it again.")
    _check_names(shard.class_names, f"{shown(path)} has")
    labels = as_labels(shard.labels, count=len(shard.blobs), where=path)
    return Piece(shard.blobs, labels, names_for(labels, shard.class_names, where=path))


@contextmanager
def _reading_shard(path: Path) -> Iterator[None]:
    with reading(path, "shard"):
        try:
            yield
        except (PrivetError, MemoryError, PermissionError):
            raise
        except Exception as error:
            raise DataError(
                f"{shown(path)} is damaged or no shard; remove it and those after it, then make"
                " them again."
            ) from error
