"""One door for every layout: look at what a path is, and hand it to the reader for that."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privet.data.builtin import BUILTIN, read_builtin
from privet.data.folder import read_folder
from privet.data.guard import GIB, reading, shown
from privet.data.idx import has_idx, is_idx, read_idx, read_idx_folder
from privet.data.npz import read_npz
from privet.data.options import Channels, ChannelsName, Options, as_size
from privet.data.parquet import read_parquet, read_parquet_folder
from privet.data.saved import is_saved, read_saved
from privet.data.tables import SUFFIXES
from privet.errors import DataError
from privet.paths import as_path

if TYPE_CHECKING:
    import os

    from privet.data.image_set import ImageSet


def load(
    source: str | os.PathLike[str],
    *,
    part: str | None = None,
    resize: int | tuple[int, int] | None = None,
    channels: Channels | ChannelsName | None = None,
    require_labels: bool = False,
    memory_limit: int = 2 * GIB,
    max_bytes: int = 64 * GIB,
) -> ImageSet:
    """Read a data set: `digits`, `mnist5k`, or the path of a file or folder.

    Whatever a file holds, the result is an `ImageSet` or a `DataError` of one sentence. A built-in
    name wins over a file of that name, which `./digits` still reaches.

    Args:
        source: A built-in name; an .npz, IDX or Parquet file; a folder of class folders, of
            images, of IDX or Parquet files, or one that `datasets` saved.
        part: `train`, `test` or another part of a source that has parts; `train` if not given.
        resize: One side or (height, width) to bring every image to.
        channels: `rgb` or `grey` to bring every image to.
        require_labels: Refuse a set without labels or with a single class.
        memory_limit: Decoded bytes above which images are decoded on access.
        max_bytes: Declared bytes above which a header is not believed.
    """
    options = Options(
        part=part,
        resize=as_size(resize),
        channels=channels,
        memory_limit=memory_limit,
        max_bytes=max_bytes,
    )
    # Decoders warn about damage that is either harmless or about to be an error here.
    with warnings.catch_warnings(), reading(source, "data set"):
        warnings.simplefilter("ignore")
        data = _read(source, options)
        return _with_labels(data, source) if require_labels else data


def _read(source: str | os.PathLike[str], options: Options) -> ImageSet:
    if isinstance(source, str) and source in BUILTIN:
        return read_builtin(source, options)
    path = as_path(source)
    if path.is_dir():
        return _read_folder(path, options)
    if path.is_file():
        return _read_file(path, options)
    if path.exists():
        raise DataError(f"{shown(path)} is neither a file nor a folder; give one of them.")
    raise DataError(
        f"{shown(path)} does not exist; give a path or a built-in name ({', '.join(BUILTIN)})."
    )


def _read_file(path: Path, options: Options) -> ImageSet:
    if path.suffix.lower() == ".npz":
        return read_npz(path, options)
    if path.suffix.lower() == ".parquet":
        return read_parquet(path, options)
    if is_idx(path):
        return read_idx(path, options)
    if path.suffix.lower() in SUFFIXES:
        raise DataError(
            f"{shown(path)} is a table and has no images; where tables are read, name the column "
            "to predict with --target."
        )
    raise DataError(
        f"{shown(path)} has no extension of images; give an .npz, .parquet or …images-idx3-ubyte "
        "file, or a folder. A text needs --task, for privet train."
    )


def _read_folder(path: Path, options: Options) -> ImageSet:
    if is_saved(path):
        return read_saved(path, options)
    if has_idx(path):
        return read_idx_folder(path, options)
    if any(path.glob("*.parquet")):
        return read_parquet_folder(path, options)
    return read_folder(path, options)


def _with_labels(data: ImageSet, source: str | os.PathLike[str]) -> ImageSet:
    if data.labels is None:
        raise DataError(f"{shown(source)} has no labels; give a set with a class for each image.")
    if np.count_nonzero(data.class_counts()) < 2:
        raise DataError(f"{shown(source)} has one class only; give a set with two or more.")
    return data
