"""Shards in other places and forms: copied as they are, or as one NumPy archive."""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from privet.data.disk import check_free_space
from privet.data.folder import BESIDE
from privet.data.guard import MIB, shown
from privet.data.load import load
from privet.data.shards import is_shard, row_counts, shard_name, soft_labels
from privet.data.staging import check_free_folder, new_file, new_folder
from privet.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from privet.data.image_set import ImageSet

_AT_ONCE = 16 * MIB  # bytes of pixels
_BESIDES = MIB  # headers, class names, the certificate
CERTIFICATE = "certificate"
"""The member of an archive that says what its images cost."""


def copy_shards(folder: Path, out: Path, *, beside: Mapping[str, str], force: bool = False) -> int:
    """Copy all shards, and texts beside them, to a new folder; returns how many images."""
    check_free_folder(out, source=folder, is_ours=_is_ours, force=force)
    counts = _counted(folder)
    shards = [folder / shard_name(number) for number in range(len(counts))]
    check_free_space(out, sum(path.stat().st_size for path in shards) + _BESIDES)
    with new_folder(out) as staging:
        for path in shards:
            shutil.copyfile(path, staging / path.name)
        for name, text in beside.items():
            (staging / name).write_text(text, encoding="utf-8")
        for path in staging.iterdir():
            _make_durable(path)
    return sum(counts)


def write_npz(folder: Path, out: Path, *, certificate: str) -> int:
    """Put all shards into an .npz that `load` maps into memory; returns how many images.

    Members are `images`, `labels` and `class_names` if there are labels, `probabilities` if labels
    are soft, and `certificate`, a text. A few images are in memory at a time.
    """
    counts = _counted(folder)
    data = load(folder, memory_limit=0)
    soft = next(soft_labels(folder), np.empty((0, 0), np.float32)).shape[1]
    check_free_space(out, sum(counts) * (data.images[:1].nbytes + 8 + 4 * soft) + _BESIDES)
    with new_file(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, "images", np.uint8, data.images.shape, _pixels(data))
        if data.labels is not None:
            _write_small(archive, "labels", data.labels)
            _write_small(archive, "class_names", np.array(data.class_names, np.str_))
        if soft:
            shape = (len(data), soft)
            _write(archive, "probabilities", np.float32, shape, soft_labels(folder))
        _write_small(archive, CERTIFICATE, np.array(certificate))
    return len(data)


def _counted(folder: Path) -> tuple[int, ...]:
    counts = row_counts(folder)
    if not counts:
        raise DataError(f"{shown(folder)} holds no shards; give the folder of a synthetic set.")
    return counts


def _is_ours(place: Path) -> bool:
    """Whether nothing but shards and what goes beside them would be lost with a folder."""
    files = list(place.iterdir())
    shards = [each for each in files if is_shard(each.name)]
    others = {each.name for each in files} - {each.name for each in shards}
    return bool(shards) and others == set(BESIDE)


def _make_durable(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _pixels(data: ImageSet) -> Iterator[NDArray[np.uint8]]:
    step = max(1, _AT_ONCE // int(np.prod(data.image_shape)))
    for start in range(0, len(data), step):
        yield data.images[start : start + step]


def _write(
    archive: zipfile.ZipFile,
    name: str,
    dtype: DTypeLike,
    shape: tuple[int, ...],
    pieces: Iterable[NDArray[Any]],
) -> None:
    """Write one array, of which a piece at a time is in memory."""
    header = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(np.ascontiguousarray(piece).data)


def _write_small(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    _write(archive, name, array.dtype, array.shape, [array])
