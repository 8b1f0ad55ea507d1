"""One encoded image: what its header says, and its pixels.

Only PNG, JPEG and WebP decoders are ever reached, chosen by the first bytes and not by the name,
and a header's size is checked before any pixel is allocated.
"""

from __future__ import annotations

from os import SEEK_END
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from privet.data.guard import reading, refuse_bomb, shown
from privet.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from privet.data.options import Options

Shape = tuple[int, int, int]

# Where Pillow begins to warn of a decompression bomb; here it is an error.
MAX_PIXELS = 89_478_485
_MOST_DEFLATED = 1032  # bytes from one: what deflate reaches, and PNG with it


def read_header(file: BinaryIO, where: object) -> Shape:
    """Height, width and channels (1 if the file is grey, else 3) without decoding a pixel."""
    with reading(where, "image"):
        return shape_of(_open(file, where))


def decode(file: BinaryIO, where: object, *, shape: Shape, options: Options) -> NDArray[np.uint8]:
    """The pixels, fitted to `options`; `shape` is what the header promised for the result."""
    with reading(where, "image"):
        image = _open(file, where)
        if options.shape_of(shape_of(image)) != shape:
            raise DataError(f"{shown(where)} has changed since it was listed; load the set again.")
        return fit(_without_alpha(image, where), shape)


def pixels_of(image: Image, where: object, *, shape: Shape) -> NDArray[np.uint8]:
    """The same of an image that someone has opened already."""
    with reading(where, "image"):
        _check(image, where)
        return fit(_without_alpha(image, where), shape)


def shape_of(image: Image) -> Shape:
    """Height, width and channels (1 if it is grey, else 3)."""
    return image.height, image.width, 1 if image.mode in ("1", "L", "LA") else 3


def fit(image: Image, shape: Shape) -> NDArray[np.uint8]:
    """Convert to grey or RGB and resize, without keeping the aspect ratio, to `shape`."""
    from PIL.Image import Resampling

    height, width, channels = shape
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Resampling.BICUBIC)
    return np.asarray(image, np.uint8).reshape(shape)


def _open(file: BinaryIO, where: object) -> ImageFile:
    from PIL.Image import DecompressionBombError

    try:
        image = _decoder(file, where)
    except DecompressionBombError:
        raise _too_large(where) from None
    _check(image, where)
    stored = file.seek(0, SEEK_END)
    _ = file.seek(0)
    refuse_bomb(
        where,
        declared=image.height * image.width * len(image.getbands()),
        stored=stored,
        max_bytes=4 * MAX_PIXELS,
        ratio=_MOST_DEFLATED,
    )
    return image


def _check(image: Image, where: object) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _too_large(where)
    if getattr(image, "is_animated", False):
        raise DataError(f"{shown(where)} is an animation; save one of its frames instead.")
    tiles = getattr(image, "tile", ())  # of a file that is not decoded yet
    if image.mode[0] in "IF" or any(";16" in str(tile[3]) for tile in tiles):
        raise DataError(f"{shown(where)} has 16 or more bits a channel; save it with 8.")


def _decoder(file: BinaryIO, where: object) -> ImageFile:
    """The decoder that the first bytes call for, not `Image.open`, which warns and guesses."""
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    head = file.read(12)
    file.seek(0)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile(file)
    if head.startswith(b"\xff\xd8\xff"):
        return JpegImageFile(file)
    if head.startswith(b"RIFF") and head.endswith(b"WEBP"):
        return WebPImageFile(file)
    raise DataError(f"{shown(where)} is not a PNG, JPEG or WebP image; convert or remove it.")


def _too_large(where: object) -> DataError:
    return DataError(f"{shown(where)} is over {MAX_PIXELS:,} pixels; scale it down before loading.")


def _without_alpha(image: Image, where: object) -> Image:
    """Drop an opaque alpha channel; what lies behind a transparent one is not ours to invent."""
    if "A" not in image.mode.upper() and "transparency" not in image.info:
        return image
    rgba = image.convert("RGBA")
    if rgba.getchannel("A").getextrema()[0] != 255:
        raise DataError(f"{shown(where)} has transparent pixels; save it without transparency.")
    return rgba.convert("RGB")
