"""The one value that a reader returns and every other room takes: images and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.column import Column, Rows, positions, take_rows
from privet.data.labels import as_labels, names_for
from privet.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from privet.data.split import Part, Split


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Images (N, H, W, C) as uint8, grey or colour, with a class label each or with none.

    `images` is a numpy array, a memory map or a column that decodes on access. Labels without
    names are named `0`, `1`, …, so that a subset still knows how many classes there are.
    """

    images: Column
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_images(self.images)
        if self.labels is None:
            if self.class_names is not None:
                raise DataError("an ImageSet without labels has class_names; leave them out.")
            return
        labels = as_labels(np.asarray(self.labels), count=len(self), where="an ImageSet")
        names = None if self.class_names is None else tuple(self.class_names)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "class_names", names_for(labels, names, where="an ImageSet"))

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        height, width, channels = self.image_shape
        classes = f"{self.num_classes} classes" if self.class_names is not None else "no labels"
        return f"ImageSet({len(self)} images of {height}×{width}×{channels}, {classes})"

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image."""
        _, height, width, channels = self.images.shape
        return height, width, channels

    @property
    def num_classes(self) -> int:
        """How many classes there are, 0 without labels; a subset may lack some of them."""
        return len(self.class_names or ())

    def class_counts(self) -> NDArray[np.int64]:
        """How many images each class has."""
        labels = np.zeros(0, np.int64) if self.labels is None else self.labels
        return np.bincount(labels, minlength=self.num_classes).astype(np.int64, copy=False)

    def take(self, rows: slice | ArrayLike) -> ImageSet:
        """The chosen rows, in that order: array slices are views, lazy images are not decoded."""
        chosen: Rows = rows if isinstance(rows, slice) else positions(np.asarray(rows), len(self))
        labels = None if self.labels is None else self.labels[chosen]
        return ImageSet(take_rows(self.images, chosen), labels, self.class_names)

    def columns(self) -> dict[str, Column]:
        """The set as named columns of equal length: `images`, and `labels` if there are any."""
        columns: dict[str, Column] = {"images": self.images}
        if self.labels is not None:
            columns["labels"] = self.labels
        return columns

    def split(
        self,
        *,
        public: Part = None,
        test: Part = None,
        seed: int,
        users: NDArray[Any] | None = None,
    ) -> Split:
        """Private, public and test parts that never share a row; see `privet.data.split`.

        With `users`, who each row belongs to, they never share a user.
        """
        from privet.data.split import split

        return split(self, public=public, test=test, seed=seed, users=users)


def _check_images(images: Column) -> None:
    if images.dtype != np.uint8:
        raise DataError(f"images are {images.dtype}; give uint8 from 0 to 255.")
    if len(images.shape) != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
        raise DataError(
            f"images have shape {tuple(images.shape)}; give (N, H, W, C) with C = 1 or 3."
        )
