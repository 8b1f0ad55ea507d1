"""IDX, the format of MNIST: memory-mapped if plain, read in bounded pieces if gzipped."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privet.data.arrays import from_arrays
from privet.data.guard import reading, refuse_bomb, shown
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from privet.data.image_set import ImageSet
    from privet.data.options import Options

_IMAGES_NAME = re.compile(r"(?P<prefix>.*)images(?P<dot>[-.])idx3-ubyte(?:\.gz)?")
_PREFIXES = {"train": ("train",), "test": ("t10k", "test")}


def is_idx(path: Path) -> bool:
    """Whether a file is named as IDX files are."""
    return re.search(r"idx[13]-ubyte(\.gz)?$", path.name) is not None


def has_idx(folder: Path) -> bool:
    """Whether a folder holds IDX images."""
    return any(_IMAGES_NAME.fullmatch(entry.name) for entry in folder.iterdir())


def read_idx(path: Path, options: Options) -> ImageSet:
    """An images file, with the labels file that lies beside it if there is one."""
    match = _IMAGES_NAME.fullmatch(path.name)
    if match is None:
        raise DataError(f"{shown(path)} holds labels; give the images-idx3-ubyte file beside it.")
    if options.part is not None:
        raise DataError(f"{shown(path)} is one part; leave --part (part=) out or give its folder.")
    pixels = _read(path, 3, options)
    beside = path.with_name(f"{match['prefix']}labels{match['dot']}idx1-ubyte")
    found = next((each for each in (beside, _zipped(beside)) if each.is_file()), None)
    labels = None if found is None else _read(found, 1, options)
    return from_arrays(pixels, labels, where=path, options=options)


def read_idx_folder(folder: Path, options: Options) -> ImageSet:
    """The part of a folder that `train-` or `t10k-` files hold."""
    wanted = options.part or "train"
    paths = sorted(entry for entry in folder.iterdir() if _belongs(entry, wanted))
    # A plain file and its gzipped twin are one thing.
    paths = [path for path in paths if path.suffix != ".gz" or path.with_suffix("") not in paths]
    if not paths:
        raise DataError(f"{shown(folder)} has no IDX images for part {wanted!r}; name the file.")
    if len(paths) > 1:
        raise DataError(f"{shown(folder)} has {len(paths)} IDX sets; name one images file.")
    return read_idx(paths[0], replace(options, part=None))


def _belongs(path: Path, part: str) -> bool:
    match = _IMAGES_NAME.fullmatch(path.name)
    if match is None:
        return False
    return match["prefix"].rstrip("-_.").endswith(_PREFIXES.get(part, (part,)))


def _zipped(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _read(path: Path, dimensions: int, options: Options) -> NDArray[np.uint8]:
    with reading(path, "IDX file"):
        if path.suffix == ".gz":
            return _read_zipped(path, dimensions, options)
        size = path.stat().st_size
        with path.open("rb") as file:
            shape, length = _read_header(file, dimensions, path)
        count = int(np.prod(shape, dtype=object))
        if length + count != size:
            raise _wrong_size(path, count, size - length)
        return np.memmap(path, np.uint8, "r", length, shape) if count else np.empty(shape, np.uint8)


def _read_zipped(path: Path, dimensions: int, options: Options) -> NDArray[np.uint8]:
    """Unzip what the header declares, piece by piece, and not a byte more."""
    stored = path.stat().st_size
    content = bytearray()
    with gzip.open(path, "rb") as file:
        shape, _ = _read_header(file, dimensions, path)
        count = int(np.prod(shape, dtype=object))
        refuse_bomb(path, declared=count, stored=stored, max_bytes=options.max_bytes)
        while piece := file.read(min(count + 1 - len(content), 2**22)):
            content += piece
    if len(content) != count:
        raise _wrong_size(path, count, len(content))
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_header(
    file: IO[bytes] | gzip.GzipFile, dimensions: int, path: Path
) -> tuple[tuple[int, ...], int]:
    """The shape that a header declares, and the length of the header."""
    magic = file.read(4)
    if magic != bytes((0, 0, 8, dimensions)):
        raise DataError(
            f"{shown(path)} begins with {magic.hex() or 'nothing'}, not with 0000080{dimensions} as"
            f" IDX files of unsigned bytes do; give a file in that format."
        )
    sizes = np.frombuffer(file.read(4 * dimensions), ">u4", dimensions)
    return tuple(int(size) for size in sizes), 4 + 4 * dimensions


def _wrong_size(path: Path, declared: int, found: int) -> DataError:
    more = "over " if found > declared else ""
    count = declared if more else found
    return DataError(
        f"{shown(path)} declares {declared:,} bytes and has {more}{count:,}; fetch the file again."
    )
