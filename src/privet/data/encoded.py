"""Many encoded images, in files or in memory, that must all come out in one shape."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from privet.data.decode import Shape, decode, read_header
from privet.data.guard import reading, shown
from privet.data.lazy import LazyImages, settle
from privet.data.parallel import for_each, worth_threads
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from privet.data.column import Column
    from privet.data.options import Options


class Encoded(Protocol):
    """A sequence of encoded images, each with a name for error messages."""

    def __len__(self) -> int: ...

    def name(self, row: int) -> str:
        """Where the image came from."""

    def open(self, row: int) -> BinaryIO:
        """The encoded bytes of an image, as an open file."""


@dataclass(frozen=True)
class EncodedFiles:
    """Encoded images in files, one image in each."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, row: int) -> str:
        """The path of the file."""
        return shown(self.paths[row])

    def open(self, row: int) -> BinaryIO:
        """The opened file."""
        return _Measured(io.FileIO(self.paths[row]))


class _Measured(io.BufferedReader):
    """A file that takes no memory for bytes it does not have, as a damaged header may ask for."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes, or as many as there are."""
        left = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


@dataclass(frozen=True)
class Decoder:
    """Fetch and decode one image for `LazyImages`."""

    encoded: Encoded
    image_shape: Shape
    options: Options

    def __call__(self, row: int) -> NDArray[np.uint8]:
        """Decode one image and hold it to the shape that its header promised."""
        name = self.encoded.name(row)
        with reading(name, "image"), self.encoded.open(row) as file:
            return decode(file, name, shape=self.image_shape, options=self.options)


def read_encoded(encoded: Encoded, options: Options) -> Column:
    """Read every header, demand one shape, then decode now or on access."""

    def header(row: int) -> Shape:
        name = encoded.name(row)
        with reading(name, "image"), encoded.open(row) as file:
            return read_header(file, name)

    shapes = for_each(header, len(encoded), threads=False, label="reading headers")
    shape = _one_shape([options.shape_of(each) for each in shapes], encoded)
    lazy = LazyImages(
        Decoder(encoded, shape, options),
        (len(encoded), *shape),
        threads=worth_threads(max(height * width for height, width, _ in shapes)),
    )
    return settle(lazy, options.memory_limit)


def _one_shape(shapes: list[Shape], encoded: Encoded) -> Shape:
    first = shapes[0]
    for row, shape in enumerate(shapes):
        name = encoded.name(row) if shape != first else ""
        if shape[:2] != first[:2]:
            raise DataError(
                f"{name} is {shape[0]}×{shape[1]} pixels and {encoded.name(0)} is"
                f" {first[0]}×{first[1]}; bring them to one size with --resize (resize=)."
            )
        if shape[2] != first[2]:
            kinds = {1: "grey", 3: "in colour"}
            raise DataError(
                f"{name} is {kinds[shape[2]]} and {encoded.name(0)} is {kinds[first[2]]}; make"
                ' them alike with --channels rgb or grey (channels="rgb" or "grey").'
            )
    return first
