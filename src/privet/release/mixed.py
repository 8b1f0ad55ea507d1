"""Features of table rows with numbers and categories, whose mean embedding is DP-MERF's.

References:
    Harder et al., DP-MERF, 2021 (heterogeneous data): the kernel of a row is the mean of a Gaussian
    kernel of its numbers and of the share of categories that two rows have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from privet.errors import ConfigError

NUMBERS, CATEGORIES = "numbers", "categories"


@dataclass(frozen=True, eq=False)
class MixedFeatures:
    """φ(x) = [√a √(2/D) (cos W n, sin W n), √b (c / √k)] of numbers n and k categories c.

    Guarantees:
        ‖φ(x)‖ ≤ 1 up to rounding, whatever the row: a + b = 1, waves have length 1, and each
        category adds 1/k to the square at most.

    Args:
        frequencies: W, (D/2, numbers).
        numeric: places of numbers in an encoded row.
        binary: places of numbers from -1 to 1 that stand for one of two categories.
        slots: places of one-hot slots.
        num_categorical: how many categories have such slots.
    """

    frequencies: Tensor
    numeric: tuple[int, ...]
    binary: tuple[int, ...]
    slots: tuple[int, ...]
    num_categorical: int

    @classmethod
    def random(
        cls,
        numeric: Sequence[int],
        binary: Sequence[int],
        slots: Sequence[int],
        num_categorical: int,
        *,
        size: int,
        length_scale: float,
        generator: torch.Generator,
    ) -> Self:
        """Draw normal frequencies, of which a Gaussian kernel is made (Rahimi and Recht, 2007).

        Args:
            numeric: places of numbers.
            binary: places of binary values.
            slots: places of one-hot slots.
            num_categorical: how many categories have slots.
            size: D, an even number of features of the numbers; unused where there are no numbers.
            length_scale: of distances between numbers from -1 to 1.
            generator: of the random frequencies.
        """
        if size < 2 or size % 2:
            raise ConfigError(f"Fourier features come in pairs: give an even number, not {size}.")
        if not 0 < length_scale < math.inf:
            raise ConfigError(f"The length scale must be positive, not {length_scale:g}.")
        shape = (size // 2 if numeric else 0), len(numeric)
        frequencies = torch.randn(shape, generator=generator) / length_scale
        return cls(frequencies, tuple(numeric), tuple(binary), tuple(slots), num_categorical)

    @property
    def sizes(self) -> dict[str, int]:
        """How many features a row has of each kind; kinds that it lacks are left out."""
        found = {
            NUMBERS: 2 * len(self.frequencies),
            CATEGORIES: 2 * len(self.binary) + len(self.slots),
        }
        return {name: size for name, size in found.items() if size}

    @property
    def size(self) -> int:
        """How many features a row has."""
        return sum(self.sizes.values())

    def __call__(self, rows: Tensor) -> Tensor:
        """The features of encoded rows (N, width); gradients reach the rows."""
        return torch.cat(list(self.by_kind(rows).values()), 1)

    def by_kind(self, rows: Tensor) -> dict[str, Tensor]:
        """The features of encoded rows, those of numbers and those of categories apart."""
        num_categories = len(self.binary) + self.num_categorical
        found = {}
        share = 1.0 if not (self.numeric and num_categories) else 0.5
        if self.numeric:
            angles = rows[:, list(self.numeric)] @ self.frequencies.to(rows).T
            scale = math.sqrt(share / len(self.frequencies))
            found[NUMBERS] = torch.cat([scale * angles.cos(), scale * angles.sin()], 1)
        if num_categories:
            scale = math.sqrt(share / num_categories)
            two = rows[:, list(self.binary)]
            slots = rows[:, list(self.slots)]
            parts = [(1 - two) / 2, (1 + two) / 2, slots]
            found[CATEGORIES] = scale * torch.cat(parts, 1)
        return found
