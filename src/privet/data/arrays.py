"""Raw arrays, from whatever file, made into uint8 (N, H, W, C): by a view where one will do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.decode import Shape, fit
from privet.data.guard import MIB, shown
from privet.data.image_set import ImageSet
from privet.data.labels import as_labels, names_for
from privet.data.lazy import LazyImages, settle
from privet.data.parallel import worth_threads
from privet.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privet.data.column import Column
    from privet.data.options import Options


def from_arrays(
    pixels: NDArray[Any],
    labels: NDArray[Any] | None,
    class_names: tuple[str, ...] | None = None,
    *,
    where: object,
    options: Options,
) -> ImageSet:
    """Check two arrays that were read from `where` and make them an `ImageSet`."""
    images = as_images(pixels, where=where, options=options)
    if labels is None:
        return ImageSet(images)
    checked = as_labels(labels, count=len(images), where=where)
    return ImageSet(images, checked, names_for(checked, class_names, where=where))


def as_images(pixels: NDArray[Any], *, where: object, options: Options) -> Column:
    """Make an array channels last, with values 0 to 255, and fit it to `options`."""
    rows = _channels_last(pixels, where)
    if 0 in rows.shape:
        raise DataError(f"{shown(where)} holds no pixels (shape {pixels.shape}); give it images.")
    _, height, width, channels = rows.shape
    shape = options.shape_of((height, width, channels))
    scale = _scale(rows, where)
    if scale is None and shape == rows.shape[1:]:
        return rows
    if scale is None and shape == (height, width, 3):
        return np.broadcast_to(rows, (len(rows), *shape), subok=True)
    lazy = LazyImages(
        _Fitted(rows, scale, shape),
        (len(rows), *shape),
        threads=worth_threads(height * width),
    )
    return settle(lazy, options.memory_limit)


def _channels_last(pixels: NDArray[Any], where: object) -> NDArray[Any]:
    """(N, H, W) gains a channel; (N, C, H, W) is transposed if it cannot be anything else."""
    if pixels.ndim == 3:
        return pixels[..., np.newaxis]
    last, first = (pixels.ndim == 4 and pixels.shape[axis] in (1, 3) for axis in (3, 1))
    if last and first:
        raise DataError(
            f"{shown(where)} has images of shape {pixels.shape}, in which the channels may come"
            " first or last; save them as (N, H, W) or with sides longer than 3 pixels."
        )
    if not (last or first):
        raise DataError(
            f"{shown(where)} has images of shape {pixels.shape}; save them as (N, H, W) or"
            " (N, H, W, C) with C = 1 or 3."
        )
    return pixels if last else pixels.transpose(0, 2, 3, 1)


def _scale(rows: NDArray[Any], where: object) -> int | None:
    """What values are multiplied by to reach 0…255; None if they are uint8 already."""
    if rows.dtype == np.uint8:
        return None
    if rows.dtype.kind not in "biuf":
        raise DataError(
            f"{shown(where)} has images of type {rows.dtype}; save them as uint8 from 0 to 255."
        )
    top, scale = (255, 1) if rows.dtype.kind in "iu" else (1, 255)
    step = max(1, 16 * MIB // max(rows[0].nbytes, 1))
    for start in range(0, len(rows), step):
        _check_range(rows[start : start + step], top, where)
    return scale


def _check_range(rows: NDArray[Any], top: int, where: object) -> None:
    low, high = rows.min(), rows.max()
    if np.isnan(low) or np.isnan(high):
        raise DataError(f"{shown(where)} has pixels that are NaN; replace them before saving.")
    if low < 0 or high > top:
        raise DataError(
            f"{shown(where)} has {rows.dtype} pixels from {low:g} to {high:g}; scale them to"
            f" 0…{top} or save uint8 from 0 to 255."
        )


@dataclass(frozen=True)
class _Fitted:
    """Fetch one row for `LazyImages`: scale it, then convert and resize it."""

    rows: NDArray[Any]
    scale: int | None
    shape: Shape

    def __call__(self, row: int) -> NDArray[np.uint8]:
        pixels: NDArray[Any] = self.rows[row]
        if self.scale is not None:
            pixels = np.rint(pixels * np.float64(self.scale)).astype(np.uint8)
        if pixels.shape == self.shape:
            return pixels
        from PIL import Image

        squeezed = pixels[..., 0] if pixels.shape[2] == 1 else pixels
        return fit(Image.fromarray(np.ascontiguousarray(squeezed)), self.shape)
