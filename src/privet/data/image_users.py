"""The users that images belong to: an array, a column or a table that lies beside the images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privet.data.builtin import BUILTIN
from privet.data.folder import METADATA, image_files
from privet.data.guard import reading, shown
from privet.data.idx import has_idx
from privet.data.npz import read_array
from privet.data.parquet import parquet_files
from privet.data.saved import is_saved
from privet.data.tables import read_table
from privet.data.users import user_ids
from privet.errors import ConfigError, DataError
from privet.paths import as_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FILE = "file_name"


def image_users(source: str, key: str, *, count: int) -> NDArray[np.str_]:
    """The user of each image of a source, in the order in which images load.

    Args:
        source: an .npz archive, a Parquet file, or a folder of Parquet files or of images.
        key: the name of the array or of the column.
        count: the number of images that were loaded.
    """
    ids = None if source in BUILTIN else _ids(as_path(source), key)
    if ids is None:
        raise ConfigError(
            f"--user is {shown(repr(key))}, and {shown(source)} does not say whose its images are: "
            "give an .npz archive with such an array, Parquet with such a column, or a folder with "
            f"a table {METADATA} that has the columns {_FILE} and {shown(key)}."
        )
    if len(ids) != count:
        raise DataError(
            f"{shown(source)} has {count:,} images and {len(ids):,} users in {shown(repr(key))}; "
            "give one for each image."
        )
    return ids


def known_image_users(source: str, key: str, *, count: int) -> NDArray[np.str_] | None:
    """As `image_users`; None where a source does not say whose its images are."""
    try:
        return image_users(source, key, count=count)
    except (ConfigError, DataError):
        return None


def _ids(path: Path, key: str) -> NDArray[np.str_] | None:
    """User ids from the layout that `load` would take the path for; `None` if it has no ids."""
    if not path.is_dir() and path.suffix.lower() == ".npz":
        return _of_archive(path, key)
    if path.is_dir() and (is_saved(path) or has_idx(path)):
        return None
    if files := parquet_files(path):
        return np.concatenate([_of_parquet(file, key) for file in files])
    return _of_folder(path, key) if (path / METADATA).is_file() else None


def _of_archive(path: Path, key: str) -> NDArray[np.str_]:
    import pyarrow as pa

    array = read_array(path, key)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise DataError(
            f"{shown(path)} has no list of whole numbers or texts under {shown(repr(key))}; save "
            "one that says whose each image is."
        )
    with reading(path, ".npz archive"):
        texts = pa.array(np.asarray(array).astype(np.str_).tolist())
    return user_ids(pa.table({key: texts}), key, path)


def _of_parquet(path: Path, key: str) -> NDArray[np.str_]:
    import pyarrow.parquet as pq

    with reading(path, "Parquet file"), pq.ParquetFile(path) as file:
        if key not in file.schema_arrow.names:
            return user_ids(file.schema_arrow.empty_table(), key, path)
        table = file.read([key])
        table.validate(full=True)
    return user_ids(table, key, path)


def _of_folder(folder: Path, key: str) -> NDArray[np.str_]:
    where = folder / METADATA
    table = read_table(where)
    if _FILE not in table.column_names:
        raise DataError(f"{shown(where)} has no column {_FILE}, which names an image in each row.")
    names = table[_FILE].to_pylist()
    known = dict(zip(names, user_ids(table, key, where), strict=True))
    if len(known) < len(names):
        raise DataError(f"{shown(where)} names an image twice; give each image one row.")
    wanted = [path.relative_to(folder).as_posix() for path in image_files(folder)]
    if not known.keys() >= set(wanted):
        raise DataError(f"{shown(where)} does not name every image; give each image one row.")
    return np.array([known[name] for name in wanted], dtype=np.str_)
