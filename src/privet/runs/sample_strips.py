"""Synthetic images on a page: a strip for each class."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from privet.data import ImageSet
from privet.report import Samples

_WIDEST = 672  # pixels of a strip
_MOST_PIXELS = 3_000_000  # of all strips: a page stays below 5 MB
_GAP = 1  # pixel between images
_LARGEST_SIDE = 128
_SMALLEST_SIDE = 24  # smaller images are shown larger
_MOST_CLASSES = 100


def strips(images: ImageSet, names: Sequence[str]) -> Iterator[Samples]:
    """Yield a strip for each class; of a set without labels, some strips without names."""
    height, width, channels = images.image_shape
    shrink = max(1, -(-max(height, width) // _LARGEST_SIDE))
    size = (max(1, width // shrink), max(1, height // shrink))
    if not names:
        rows = np.arange(len(images))
        count = _per_strip(size, channels, 4)
        for start in range(0, min(len(images), 4 * count), count):
            yield _strip("", images, rows[start : start + count], len(images), size, count)
        return
    count = _per_strip(size, channels, min(len(names), _MOST_CLASSES))
    assert images.labels is not None
    for label, name in enumerate(names[:_MOST_CLASSES]):
        rows = np.flatnonzero(images.labels == label)
        yield _strip(name, images, rows[:count], len(rows), size, count)


def _per_strip(size: tuple[int, int], channels: int, strips: int) -> int:
    fit = _WIDEST // max(size[0], _SMALLEST_SIDE)
    return max(1, min(fit, _MOST_PIXELS // (strips * size[0] * size[1] * channels)))


def _strip(
    name: str,
    images: ImageSet,
    rows: NDArray[np.int64],
    total: int,
    size: tuple[int, int],
    places: int,
) -> Samples:
    """Draw images from the left, each as wide on the page as if all places were taken."""
    if not len(rows):
        return Samples(name=name, png=None, count=0, total=0)
    step = size[0] + _GAP
    tiles = [_tile(each, size) for each in np.asarray(images.images[rows])]
    mode = "LA" if tiles[0].mode == "L" else "RGBA"  # gaps are of the page's colour
    picture = Image.new(mode, (len(tiles) * step - _GAP, size[1]))
    for place, tile in enumerate(tiles):
        picture.paste(tile.convert(mode), (place * step, 0))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return Samples(
        name=name,
        png=file.getvalue(),
        count=len(rows),
        total=total,
        width=picture.width,
        height=picture.height,
        share=picture.width / (places * step - _GAP),
    )


def _tile(pixels: NDArray[np.uint8], size: tuple[int, int]) -> Image.Image:
    squeezed = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    tile = Image.fromarray(np.ascontiguousarray(squeezed))
    return tile if tile.size == size else tile.resize(size, Image.Resampling.LANCZOS)
