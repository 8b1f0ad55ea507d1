"""What a set is made of, in a form that prints and that JSON takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.guard import shown
from privet.data.lazy import LazyImages

if TYPE_CHECKING:
    from privet.data.image_set import ImageSet

NOT_PRIVATE = (
    "What is shown here was computed from private rows without noise: it is NOT private and falls"
    " outside any guarantee."
)


@dataclass(frozen=True)
class ClassCount:
    """One class and how many images it has."""

    name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Sizes, type, storage and classes; names are fit for a terminal."""

    source: str
    images: int
    height: int
    width: int
    channels: int
    dtype: str
    bytes: int
    storage: str
    classes: tuple[ClassCount, ...] | None

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain values for JSON."""
        return asdict(self)


def summarise(data: ImageSet, source: object) -> Summary:
    """Summarise a set; no image is decoded."""
    height, width, channels = data.image_shape
    return Summary(
        source=shown(source),
        images=len(data),
        height=height,
        width=width,
        channels=channels,
        dtype=str(data.images.dtype),
        bytes=len(data) * height * width * channels,
        storage=_storage(data),
        classes=_classes(data),
    )


def _classes(data: ImageSet) -> tuple[ClassCount, ...] | None:
    if data.class_names is None:
        return None
    pairs = zip(data.class_names, data.class_counts(), strict=True)
    return tuple(ClassCount(shown(name), int(count)) for name, count in pairs)


def _storage(data: ImageSet) -> str:
    if isinstance(data.images, LazyImages):
        return "decoded on access"
    return "memory map" if isinstance(data.images, np.memmap) else "memory"
