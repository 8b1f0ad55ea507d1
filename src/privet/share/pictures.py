"""Images as people have them (arrays, Pillow images, files, lists of these) in batches of bytes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.decode import Shape, decode, fit, pixels_of, read_header, shape_of
from privet.data.guard import reading, shown
from privet.data.options import Options
from privet.errors import ConfigError, DataError
from privet.paths import as_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = 256
_KINDS = "give a uint8 array, a Pillow image, the path of an image file, or a list of these"


def batches(images: Any, shape: Shape) -> Iterator[NDArray[np.uint8]]:
    """Yield images (N, H, W, C) of one shape, a few at a time.

    Images of another shape are converted, and a warning says so.
    """
    if _is_array(images):
        yield from _array_batches(images, shape)
        return
    items = [images] if is_single(images) else images
    for start in range(0, len(items), _BATCH):
        yield np.stack([_picture(each, shape) for each in items[start : start + _BATCH]])


def is_single(images: Any) -> bool:
    """Whether this is one image, not several."""
    if _is_array(images):
        return len(images.shape) == 2 or (len(images.shape) == 3 and images.shape[2] in (1, 3))
    return isinstance(images, str) or not isinstance(images, Sequence)


def _is_array(images: Any) -> bool:
    return hasattr(images, "dtype") and hasattr(images, "shape")


def _array_batches(images: Any, shape: Shape) -> Iterator[NDArray[np.uint8]]:
    _check(images)
    rows = images[None] if is_single(images) else images
    for start in range(0, len(rows), _BATCH):
        batch = np.asarray(rows[start : start + _BATCH])
        if len(images.shape) < 3 or not _has_channels(images):
            batch = batch[..., None]
        yield (
            batch
            if batch.shape[1:] == shape
            else np.stack([_fitted(each, shape) for each in batch])
        )


def _has_channels(images: Any) -> bool:
    return len(images.shape) == 4 or images.shape[-1] in (1, 3)


def _check(images: Any) -> None:
    if str(images.dtype).removeprefix("torch.") != "uint8":
        raise ConfigError(
            f"images are {images.dtype}; give uint8 from 0 to 255, or call .module with floats "
            "from -1 to 1 of shape (N, C, H, W)."
        )
    shape = tuple(images.shape)
    if (
        len(shape) not in (2, 3, 4)
        or (len(shape) == 4 and shape[3] not in (1, 3))
        or 0 in shape[1:]
    ):
        raise ConfigError(
            f"images have shape {shape}; give (N, H, W, C) with C = 1 or 3, or (N, H, W)."
        )


def _picture(image: Any, shape: Shape) -> NDArray[np.uint8]:
    """One image as bytes (H, W, C) of the given shape."""
    if isinstance(image, str | os.PathLike):
        return _from_file(as_path(image), shape)
    if _is_array(image):
        return _from_array(image, shape)
    from PIL.Image import Image

    if not isinstance(image, Image):
        raise ConfigError(f"images are of type {type(image).__name__}; {_KINDS}.")
    _explain(shape_of(image), shape)
    return pixels_of(image, "the image", shape=shape)


def _from_file(path: Path, shape: Shape) -> NDArray[np.uint8]:
    if not path.is_file():
        raise DataError(f"{shown(path)} is no file; give the path of an image.")
    options = Options(resize=shape[:2], channels="grey" if shape[2] == 1 else "rgb")
    with reading(path, "image"), path.open("rb") as file:
        found = read_header(file, path)
        file.seek(0)
        pixels = decode(file, path, shape=shape, options=options)
    _explain(found, shape)
    return pixels


def _from_array(image: Any, shape: Shape) -> NDArray[np.uint8]:
    _check(image)
    if not is_single(image):
        raise ConfigError(
            f"an image in the list has shape {tuple(image.shape)}; give (H, W, C) with C = 1 or 3, "
            "or (H, W)."
        )
    pixels = np.asarray(image)
    return _fitted(pixels[..., None] if pixels.ndim == 2 else pixels, shape)


def _fitted(pixels: NDArray[np.uint8], shape: Shape) -> NDArray[np.uint8]:
    if pixels.shape == shape:
        return pixels
    from PIL.Image import fromarray

    height, width, channels = pixels.shape
    _explain((height, width, channels), shape)
    picture = fromarray(np.ascontiguousarray(pixels[..., 0] if channels == 1 else pixels))
    return fit(picture, shape)


def _explain(found: Shape, shape: Shape) -> None:
    if found != shape:
        sizes = ["×".join(map(str, each)) for each in (found, shape)]
        warnings.warn(f"Images are {sizes[0]}; they are brought to {sizes[1]}.", stacklevel=2)
