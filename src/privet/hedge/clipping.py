"""The sum of clipped vectors: where one unit's influence is bounded."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NewType

import torch
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge.summand import Blocks, Summand
from privet.hedge.units import Units

# Norms are computed in floating point. Clipping this little below the bound keeps what rounding
# does to a norm, or to a weight, from carrying a vector past it.
_ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-5}
_SMALLEST_WEIGHT = 1e-30  # single precision rounds smaller ones too coarsely


ClippedSum = NewType("ClippedSum", Blocks)
"""A bounded sum without noise: of private units it must not leave the hedge."""


def clipped_sum(batches: Iterable[Units], summand: Summand, clip_norm: float) -> ClippedSum:
    """Σ clip(vector), in double precision, however the units are batched.

    Guarantees:
        One unit contributes at most `clip_norm` in Euclidean norm over all blocks, under autocast
        as well. A unit whose vector is not finite contributes zero, and does not disturb the
        others.
    """
    total, shapes = Blocks(), _shapes(summand.zeros())
    for units in batches:
        with _full_precision(units.offsets.device):
            found = _batch_sum(units, summand, clip_norm)
        if _shapes(found) != shapes:
            raise PrivacyError("A summand returned blocks of other shapes than its zeros.")
        if total:
            _add(total, found)
        else:  # no zeros to begin with: writing them takes as long as adding
            total = {name: _own_double(block) for name, block in found.items()}
    return ClippedSum(total or _zeros(summand))


def clip_weights(norms: Tensor, clip_norm: float) -> Tensor:
    """The factor that brings each norm to at most the clip norm; NaN where the norm is NaN."""
    if norms.dtype not in _ROUNDING:
        raise PrivacyError(f"Norms must be in single or double precision, not {norms.dtype}.")
    bound = clip_norm * (1 - _ROUNDING[norms.dtype])
    return bound / norms.detach().double().clamp(min=bound)


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Whatever autocast the caller is in: a norm of half precision may lie below the true one."""
    with torch.autocast("cpu", enabled=False), torch.autocast(device.type, enabled=False):
        yield


def _batch_sum(units: Units, summand: Summand, clip_norm: float) -> Blocks:
    weights = clip_weights(summand.norms(units), clip_norm)
    usable = weights >= _SMALLEST_WEIGHT
    if not usable.all():  # 0 · NaN is NaN, so units without a usable norm must leave the batch
        units = units.select(usable)
        if not len(units):
            return _zeros(summand)
        weights = clip_weights(summand.norms(units), clip_norm)
    blocks = summand.weighted_sum(units, weights)
    if _finite(blocks):
        return blocks
    return _sum_of_finite(units, summand, clip_norm)


def _sum_of_finite(units: Units, summand: Summand, clip_norm: float) -> Blocks:
    """One unit at a time, leaving out each whose own contribution is not finite."""
    total = _zeros(summand)
    for unit in _one_by_one(units):
        weights = clip_weights(summand.norms(unit), clip_norm)
        blocks = summand.weighted_sum(unit, weights)
        if _finite(blocks):
            _add(total, blocks)
    return total


def _one_by_one(units: Units) -> Iterator[Units]:
    numbers = torch.arange(len(units), device=units.offsets.device)
    return (units.select(numbers == number) for number in range(len(units)))


def _zeros(summand: Summand) -> Blocks:
    zeros = summand.zeros().items()
    return {name: torch.zeros_like(zero, dtype=torch.float64) for name, zero in zeros}


def _finite(blocks: Blocks) -> bool:
    """Whether all coordinates are finite: their sum is not if one of them is not."""
    return all(math.isfinite(block.detach().sum()) for block in blocks.values())


def _shapes(blocks: Blocks) -> dict[str, torch.Size]:
    return {name: block.shape for name, block in blocks.items()}


def _own_double(block: Tensor) -> Tensor:
    return block.detach().to(torch.float64, copy=True)


def _add(total: Blocks, blocks: Blocks) -> None:
    for name, block in blocks.items():
        total[name] += block.detach().to(total[name].device)
