"""Per-class sums of features with the class counts beside them, as one vector per unit.

The vector of a unit has (features + 1) coordinates in every class, nearly all of them zero. It is
never formed: a unit touches its own class alone (Algorithm 2 of SPS; DP-MERF and DP-MEPF weigh
their features with a one-hot label in the same way).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.hedge import Blocks, NoisySum, Units, at_least_single, long_norms


@dataclass(frozen=True, kw_only=True)
class ClassBlocks:
    """Features ⊗ one-hot label, and a count of every class in the same clip.

    Guarantees:
        One unit, with all its rows averaged, is one vector. Under add-or-remove it touches only
        the classes of its own rows; a changed label is a replaced unit. A row whose label is not
        one of the declared classes makes its unit's norm undefined, so the unit counts for zero.

    Args:
        features: from a batch of units to a matrix, one feature vector per row.
        size: the number of features.
        num_classes: how many classes were declared.
        count_scale: the weight of a count against the features; released counts are divided by it.
        labels: the column that holds the labels.
    """

    features: Callable[[Units], Tensor]
    size: int
    num_classes: int
    count_scale: float
    labels: str = "labels"
    dtype: torch.dtype = torch.float32
    _kept: WeakKeyDictionary[Units, _Pairs] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def zeros(self) -> Blocks:
        """Zeros for the feature sums and the count of every class."""
        return {
            "sums": torch.zeros(self.num_classes, self.size, dtype=self.dtype),
            "counts": torch.zeros(self.num_classes, dtype=self.dtype),
        }

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's vector, from the (unit, class) pairs that occur."""
        pairs = self._kept[units] = self._pairs(units)
        squares = long_norms(pairs.sums).double() ** 2 + pairs.counts**2
        total: Tensor = squares.new_zeros(len(units)).index_add_(0, pairs.unit, squares)
        return total.sqrt().to(pairs.sums.dtype)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · vector, each (unit, class) pair added to its class."""
        pairs = self._kept.pop(units)
        weight = weights[pairs.unit].double()
        blocks = {name: zero.to(weight) for name, zero in self.zeros().items()}
        blocks["sums"].index_add_(0, pairs.label, weight[:, None] * pairs.sums)
        blocks["counts"].index_add_(0, pairs.label, weight * pairs.counts)
        return blocks

    def _pairs(self, units: Units) -> _Pairs:
        """Add up the rows of one unit and one class, over the unit's number of rows."""
        labels = units[self.labels].long()
        features = at_least_single(self.features(units).detach().flatten(1))
        declared = (labels >= 0) & (labels < self.num_classes)
        features = torch.where(declared[:, None], features, torch.nan)
        labels = torch.where(declared, labels, 0)
        counts = torch.full_like(labels, self.count_scale, dtype=torch.float64)
        if units.single:
            return _Pairs(units.owner, labels, features, counts)
        share = units.sizes[units.owner].double()
        key, pair = torch.unique(units.owner * self.num_classes + labels, return_inverse=True)
        return _Pairs(
            key // self.num_classes,
            key % self.num_classes,
            _gather(features / share[:, None].to(features.dtype), pair, len(key)),
            _gather(counts / share, pair, len(key)),
        )


@dataclass(frozen=True)
class _Pairs:
    unit: Tensor
    label: Tensor
    sums: Tensor
    counts: Tensor


def _gather(rows: Tensor, group: Tensor, groups: int) -> Tensor:
    return rows.new_zeros(groups, *rows.shape[1:]).index_add_(0, group, rows)


def class_means(released: NoisySum, count_scale: float) -> tuple[Tensor, Tensor]:
    """Class means and class sizes from a noised sum: post-processing, free to use.

    A noisy count below one standard deviation of its noise is raised to that.
    """
    floor = released.noise_scale
    counts = released["counts"].clamp(min=floor) / count_scale
    return released["sums"] / counts[:, None], counts
