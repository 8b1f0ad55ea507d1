"""Images that are decoded when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privet.data.column import Column, Rows, positions
from privet.data.parallel import for_each

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class LazyImages:
    """A column of images whose shape is known and whose pixels are not yet there.

    `fetch` decodes one row to uint8 (H, W, C) or raises a `DataError` that names it. Reading a
    slice or an index array fetches those rows, in `threads` if that pays, and forgets them again.
    """

    fetch: Callable[[int], NDArray[np.uint8]]
    shape: tuple[int, int, int, int]
    threads: bool = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of pixels, always uint8."""
        return np.dtype(np.uint8)

    @property
    def nbytes(self) -> int:
        """The size of all images once decoded."""
        return int(np.prod(self.shape, dtype=object))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows, /) -> NDArray[np.uint8]:
        return self._decode(positions(rows, len(self)))

    def decoded(self) -> NDArray[np.uint8]:
        """Decode every image into memory."""
        return self._decode(np.arange(len(self)), label="decoding images")

    def _decode(self, index: NDArray[np.int64], label: str | None = None) -> NDArray[np.uint8]:
        pixels = np.empty((len(index), *self.shape[1:]), np.uint8)

        def fill(row: int) -> None:
            pixels[row] = self.fetch(int(index[row]))

        for_each(fill, len(index), threads=self.threads, label=label)
        return pixels


def settle(images: LazyImages, memory_limit: int) -> Column:
    """Decode now if the result may be held in memory, else later."""
    return images if images.nbytes > memory_limit else images.decoded()
