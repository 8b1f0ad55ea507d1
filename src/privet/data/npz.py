"""NumPy archives: memory-mapped if stored, read if compressed, never unpickled.

A member's header is checked against the archive and the limits before anything is allocated.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from privet.data.arrays import from_arrays
from privet.data.guard import reading, refuse_bomb, shown
from privet.data.options import Options
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from privet.data.image_set import ImageSet

_IMAGES = ("images", "x", "data")
_LABELS = ("labels", "y", "y_train")


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def read_npz(path: Path, options: Options) -> ImageSet:
    """Images, labels and class names under any of their usual keys."""
    with reading(path, ".npz archive"), zipfile.ZipFile(path) as archive:
        keys = [name.removesuffix(".npy") for name in archive.namelist()]
        image_key, label_keys = _choose(keys, options.part, path)
        label_key = next((key for key in label_keys if key in keys), None)
        pixels = _member(archive, image_key, path, options)
        labels = None if label_key is None else _member(archive, label_key, path, options)
        names = _names(archive, path, options) if "class_names" in keys else None
        return from_arrays(
            pixels, labels, names if labels is not None else None, where=path, options=options
        )


def read_text(path: Path, key: str) -> str | None:
    """A text that an archive carries beside its images; `None` if there is none."""
    found = read_array(path, key)
    return None if found is None else str(found)


def read_array(path: Path, key: str) -> NDArray[Any] | None:
    """An array that an archive carries beside its images; `None` if there is none."""
    with reading(path, ".npz archive"), zipfile.ZipFile(path) as archive:
        if f"{key}.npy" not in archive.namelist():
            return None
        return _member(archive, key, path, Options())


def _choose(keys: list[str], part: str | None, path: Path) -> tuple[str, tuple[str, ...]]:
    """The key of the images and the keys that their labels may have."""
    parts = [name for name in ("train", "test") if f"x_{name}" in keys]
    if parts:
        wanted = part or parts[0]
        if wanted not in parts:
            raise DataError(f"{shown(path)} has no part {wanted!r}; choose {' or '.join(parts)}.")
        return f"x_{wanted}", (f"y_{wanted}",)
    if part is not None:
        raise DataError(f"{shown(path)} is not divided into parts; leave --part (part=) out.")
    found = next((key for key in _IMAGES if key in keys), None)
    if found is None:
        raise DataError(
            f"{shown(path)} has no images under the keys {', '.join(_IMAGES)} or x_train; it has"
            f" {shown(', '.join(keys[:8])) or 'none'}, so rename one."
        )
    return found, _LABELS


def _names(archive: zipfile.ZipFile, path: Path, options: Options) -> tuple[str, ...]:
    names = _member(archive, "class_names", path, options)
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{shown(path)} has class_names that are not a list of texts; save one.")
    return tuple(names.tolist())


def _member(archive: zipfile.ZipFile, key: str, path: Path, options: Options) -> NDArray[Any]:
    """One array of the archive, memory-mapped if it is stored uncompressed."""
    where = f"{path}[{key}]"
    info = archive.getinfo(f"{key}.npy")
    refuse_bomb(
        where,
        declared=info.file_size,
        stored=info.compress_size,
        max_bytes=options.max_bytes,
    )
    with archive.open(info) as file:
        header = read_header(file, where)
        if header.length + header.nbytes != info.file_size:
            raise DataError(
                f"{shown(where)} promises {header.nbytes:,} bytes and has"
                f" {info.file_size - header.length:,}; save it again."
            )
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if stored and header.nbytes:
            return _memory_map(path, info, header)
        flat = _read_exactly(file, header.nbytes).view(header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def read_header(file: IO[bytes], where: str) -> _Header:
    """The header of an array in NumPy's format; refused if reading it would mean unpickling."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise DataError(
            f"{shown(where)} wants unpickling, which can run any code; save it as a plain array"
            " of numbers."
        )
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise DataError(f"{shown(where)} has an impossible header; save it again.")
    return _Header(shape, fortran, dtype, file.tell())


def _memory_map(path: Path, info: zipfile.ZipInfo, header: _Header) -> NDArray[Any]:
    """Map a stored member through its offset in the archive."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
    return np.memmap(
        path,
        dtype=header.dtype,
        mode="r",
        offset=info.header_offset + 30 + int(lengths.sum()) + header.length,
        shape=header.shape,
        order="F" if header.fortran else "C",
    )


def _read_exactly(file: IO[bytes], count: int) -> NDArray[np.uint8]:
    """Read in pieces, so that memory is touched only as bytes really arrive."""
    flat = np.empty(count, np.uint8)
    done = 0
    while done < count:
        piece = file.read(min(count - done, 2**22))
        if not piece:
            raise EOFError
        flat[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    return flat
