"""The sum of clipped vectors: where one unit's influence is bounded."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NewType

import torch
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge.summand import Blocks, Summand
from privet.hedge.units import Units

# Norms are computed in floating point. Clipping this little below the bound keeps what rounding
# does to a norm, or to a weight, from carrying a vector past it.
_ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-5}
_SMALLEST_WEIGHT = 1e-30  # single precision rounds smaller ones too coarsely
_SLACK = 1e-3  # for what rounding does to a long sum in single precision
_LARGE = 1e15  # squares of such numbers come near the end of single precision


ClippedSum = NewType("ClippedSum", Blocks)
"""A bounded sum without noise: of private units it must not leave the hedge."""


def clipped_sum(batches: Iterable[Units], summand: Summand, clip_norm: float) -> ClippedSum:
    """Add up Σ clip(vector) in double precision, however the units are batched.

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
    """Switch off autocast and shorter floats: such a norm may lie below the true one."""
    before = list(_switches())  # all are read before one is written
    try:
        for write, exact, _ in before:
            write(exact)
        with torch.autocast("cpu", enabled=False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        for write, _, value in before:
            write(value)


def _switches() -> Iterator[tuple[Callable[[Any], None], object, object]]:
    """What may shorten floats: how to write it, the value that does not, and the present one.

    Older switches come first, for they turn newer ones, which PyTorch has for each operation. They
    cannot be read where newer ones were used.
    """
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
        yield torch.set_float32_matmul_precision, "highest", products
    backends: Any = torch.backends
    cuda, cudnn, mkldnn = backends.cuda, backends.cudnn, backends.mkldnn
    switches: list[tuple[Any, str, object]] = [(cudnn, "allow_tf32", False)]
    if hasattr(mkldnn, "conv"):
        owners = (cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)
        switches += [(owner, "fp32_precision", "ieee") for owner in owners]
    for owner, name, exact in switches:
        with suppress(RuntimeError):
            yield partial(setattr, owner, name), exact, getattr(owner, name)


def _batch_sum(units: Units, summand: Summand, clip_norm: float) -> Blocks:
    weights = _weights(units, summand, clip_norm)
    usable = weights >= _SMALLEST_WEIGHT
    if not usable.all():
        # 0 · NaN is NaN, so units without a usable norm must leave the batch. The others have the
        # same vectors without them: what is random in these is drawn once for a batch.
        units = units.select(usable)
        if not len(units):
            return _zeros(summand)
        weights = _weights(units, summand, clip_norm)
    blocks = summand.weighted_sum(units, weights)
    if _bounded(blocks, len(units) * clip_norm):
        return blocks
    return _sum_of_finite(units, summand, clip_norm)


def _weights(units: Units, summand: Summand, clip_norm: float) -> Tensor:
    norms = summand.norms(units)
    if norms.shape != (len(units),):  # one norm for several units would let all of them through
        raise PrivacyError(f"A summand gave norms of shape {tuple(norms.shape)}, not one per unit.")
    return clip_weights(norms, clip_norm)


def _sum_of_finite(units: Units, summand: Summand, clip_norm: float) -> Blocks:
    """Add units up one at a time, leaving out each whose own contribution is not finite."""
    total = _zeros(summand)
    for unit in _one_by_one(units):
        blocks = summand.weighted_sum(unit, _weights(unit, summand, clip_norm))
        if _bounded(blocks, clip_norm):
            _add(total, blocks)
    return total


def _one_by_one(units: Units) -> Iterator[Units]:
    numbers = torch.arange(len(units), device=units.offsets.device)
    return (units.select(numbers == number) for number in range(len(units)))


def _zeros(summand: Summand) -> Blocks:
    zeros = summand.zeros().items()
    return {name: torch.zeros_like(zero, dtype=torch.float64) for name, zero in zeros}


def _bounded(blocks: Blocks, bound: float) -> bool:
    """Whether a sum is finite and no longer than that many clipped vectors can be together.

    A longer sum was made of other vectors than those whose norms were given: it is refused.
    """
    precision = torch.float64 if bound > _LARGE else None
    norms = [torch.linalg.vector_norm(each.detach(), dtype=precision) for each in blocks.values()]
    length = math.hypot(*map(float, norms))
    if not math.isfinite(length):
        return False
    if length > bound * (1 + _SLACK):
        raise PrivacyError("A sum is longer than the norms of its vectors allow: it stays here.")
    return True


def _shapes(blocks: Blocks) -> dict[str, torch.Size]:
    return {name: block.shape for name, block in blocks.items()}


def _own_double(block: Tensor) -> Tensor:
    return block.detach().to(torch.float64, copy=True)


def _add(total: Blocks, blocks: Blocks) -> None:
    for name, block in blocks.items():
        total[name] += block.detach().to(total[name].device)
