"""A picture of a set: a few rows of images for each class, with its name beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from privet.data.disk import drafted
from privet.data.guard import shown
from privet.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

    from privet.data.image_set import ImageSet

_SMALLEST, _LARGEST = 32, 96
_GAP, _MARGIN = 2, 8
_LONGEST_NAME = 24
_FONT_SIZE = 13


@dataclass(frozen=True)
class _Band:
    """The name of one class and its rows on the sheet."""

    name: str
    rows: NDArray[np.int64]


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file, unless forced, before any work is done."""
    if path.exists() and not force:
        raise ConfigError(f"{shown(path)} exists; give another path, or --force to overwrite it.")
    if path.suffix.lower() != ".png":
        raise ConfigError(f"{shown(path)} should be a PNG; let its name end in .png.")
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"{shown(path)} cannot be a file there; make its folder first.")


def write_contact_sheet(data: ImageSet, path: Path, *, force: bool = False) -> None:
    """Draw the sheet and put it at `path` whole or not at all."""
    check_free(path, force=force)
    sheet = draw_contact_sheet(data)
    with drafted(path) as file:
        sheet.save(file, "PNG")


def draw_contact_sheet(
    data: ImageSet, *, columns: int = 12, lines: int = 2, max_classes: int = 100
) -> Image:
    """Draw `lines` lines of `columns` images for each class, evenly spaced through the set."""
    from PIL import Image, ImageDraw

    bands = _bands(data, columns * lines)[:max_classes]
    height, width = _tile_size(*data.image_shape[:2])
    font = _font()
    left = _MARGIN + max(ceil(font.getlength(band.name)) for band in bands) + _MARGIN
    tops = np.cumsum([_MARGIN] + [_band_height(band, columns, height) for band in bands])
    sheet = Image.new("RGB", (left + columns * (width + _GAP) + _MARGIN, int(tops[-1])), "white")
    draw = ImageDraw.Draw(sheet)
    for band, top in zip(bands, tops.tolist(), strict=False):
        draw.text((_MARGIN, top + height / 2), band.name, "black", font, anchor="lm")
        for place, pixels in enumerate(data.images[band.rows]):
            line, column = divmod(place, columns)
            corner = left + column * (width + _GAP), top + line * (height + _GAP)
            sheet.paste(_tile(pixels, (width, height)), corner)
    return sheet


def _bands(data: ImageSet, images: int) -> list[_Band]:
    """Which rows stand for each class; a set without labels is one band."""
    if data.labels is None or data.class_names is None:
        return [_Band("", _spread(np.arange(len(data)), 4 * images))]
    labels = data.labels
    members = (np.flatnonzero(labels == label) for label in range(data.num_classes))
    return [
        _Band(_short(name), _spread(rows, images))
        for name, rows in zip(data.class_names, members, strict=True)
    ]


def _spread(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    if len(rows) <= count:
        return rows
    return rows[np.arange(count) * len(rows) // count]


def _short(name: str) -> str:
    name = shown(name)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _tile_size(height: int, width: int) -> tuple[int, int]:
    """The size of an image on the sheet: small ones grow by a whole factor, large ones shrink."""
    side = max(height, width)
    if side <= _LARGEST:
        factor = ceil(_SMALLEST / side)
        return height * factor, width * factor
    return max(1, height * _LARGEST // side), max(1, width * _LARGEST // side)


def _band_height(band: _Band, columns: int, height: int) -> int:
    return max(1, ceil(len(band.rows) / columns)) * (height + _GAP) + _MARGIN


def _tile(pixels: NDArray[np.uint8], size: tuple[int, int]) -> Image:
    from PIL import Image

    grows = size[0] >= pixels.shape[1]
    method = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    squeezed = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(squeezed)).resize(size, method)


def _font() -> FreeTypeFont:
    """The DejaVu font, which comes with matplotlib and knows more scripts than Pillow's own."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", _FONT_SIZE)
