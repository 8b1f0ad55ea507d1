"""What the hedge asks of a caller: how long each unit's vector is, and a weighted sum of them.

A vector lives in named blocks (parameters of a model, class means, counts) and is never needed
whole: ghost engines know norms without gradients, class blocks touch one class per unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.hedge.units import Units

Blocks = dict[str, Tensor]

_TILE = 512  # columns: with a physical batch of rows, what a cache holds in double precision
_LONGEST_NORM = 4096  # coordinates: single precision is good to about 1e-6 up to there


class Summand(Protocol):
    """A vector per unit, seen only through its norm and its weighted sums.

    The contract that sensitivity rests on, checked for every summand in the tests:
    unit i's vector depends on unit i and on public values alone; `norms` gives the Euclidean norm
    over all blocks together; `weighted_sum` is linear in the weights, and of the very vectors whose
    norms were given. The hedge calls it right after `norms` on the same units, so that work may be
    kept in between, with weights in double precision. Norms and sums should be accumulated in
    double precision too: what rounding adds is not clipped.
    """

    def zeros(self) -> Blocks:
        """The sum over no units: the shapes, known without looking at a row."""

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's vector, as a tensor of the precision it was computed in."""

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · vector over the units."""


@dataclass(frozen=True)
class PerRow:
    """One vector per row, by a function, averaged over the rows of a unit.

    Args:
        function: from a batch of units to a matrix, one vector per row.
        size: the length of a vector.
        block: the name of the sum.
        dtype: the precision of the sum that leaves the hedge.
    """

    function: Callable[[Units], Tensor]
    size: int
    block: str = "sum"
    dtype: torch.dtype = torch.float32
    _kept: WeakKeyDictionary[Units, Tensor] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def zeros(self) -> Blocks:
        """One block of zeros, as long as a vector."""
        return {self.block: torch.zeros(self.size, dtype=self.dtype)}

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's averaged vector."""
        vectors = at_least_single(units.mean(self.function(units).detach().flatten(1)))
        self._kept[units] = vectors
        return long_norms(vectors)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · vector over the units, as one matrix-vector product."""
        return {self.block: double_sum(weights, self._kept.pop(units))}


@dataclass(frozen=True)
class Count:
    """The number 1 for every unit, so that a release counts units."""

    def zeros(self) -> Blocks:
        """One block that holds a single zero."""
        return {"count": torch.zeros(1, dtype=torch.float64)}

    def norms(self, units: Units) -> Tensor:
        """The norm of every unit, which is 1."""
        return torch.ones(len(units), dtype=torch.float64, device=units.offsets.device)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """The sum of the weights, as the only block."""
        return {"count": weights.sum().reshape(1)}


def at_least_single(vectors: Tensor) -> Tensor:
    """Raise half precision to single, since privacy rests on norms of these vectors."""
    return vectors if vectors.dtype in (torch.float32, torch.float64) else vectors.float()


def long_norms(vectors: Tensor) -> Tensor:
    """Norms of rows that stay accurate for millions of coordinates: by tiles, then in double."""
    # Along a stride, PyTorch adds one number after the other, and single precision falls behind.
    tiles = torch.split(vectors.contiguous(), _LONGEST_NORM, dim=1)
    norms = [_norms(tile, 1) for tile in tiles]
    return norms[0] if len(norms) == 1 else _norms(torch.stack(norms).double(), 0).to(vectors.dtype)


def double_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Σ weight · vector in double precision, by tiles of columns that stay in the cache.

    Rounding in single precision would depend on which units share a batch, and so on every one.
    """
    width = min(_TILE, vectors.shape[1])
    tile = torch.empty(len(vectors), width, dtype=torch.float64, device=vectors.device)
    total = torch.empty(vectors.shape[1], dtype=torch.float64, device=vectors.device)
    tiles = zip(torch.split(vectors, width, dim=1), torch.split(total, width), strict=True)
    for part, out in tiles:
        double = tile if part.shape[1] == width else tile[:, : part.shape[1]]
        torch.mv(double.copy_(part).T, weights, out=out)
    return total


def _norms(vectors: Tensor, dim: int) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=dim)
    return norms
