"""Gaussian noise on a grid, of secret bits: nothing in its low digits tells what it was added to.

A sum is rounded to a grid, and a whole number of grid steps is added to it. All of that is integer
arithmetic, so that the attacks on floating-point noise (Mironov 2012) find nothing. The number of
steps is Σ_j 20^j X_j, j = 0 … 7, where each X_j is a discrete Gaussian of scale 32 that a table of
128-bit probabilities gives (Micciancio and Walter 2017, for the sum). Bits come from the operating
system's generator; there is no key.

How far that is from Gaussian noise:
    X + k Y, for discrete Gaussians of scales s and t, has the probabilities of one of scale
    √(s² + k²t²) but for a factor within 1 ± 2 exp(−2π²τ²), 1/τ² = (k/s)² + 1/t², up to 1%. Here
    τ > 1.59 in all seven sums, whose factors are within 1 ± 5e-21 together. Tables end at 15.5
    standard deviations, 10 τ beyond all that a number within 15 has a share of. A Gaussian number
    rounded to the grid has these probabilities but for a factor of 1 ± 7e-21, within 15. So each
    number's probabilities are those of a rounded Gaussian number but for a factor of
    e^±`PER_NUMBER`, outside of events of probability `MISSED`. The rounding of Gaussian noise costs
    nothing, and that of the sum is paid by more noise (`widened`).

References:
    Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, 2020.
    Micciancio and Walter, Gaussian Sampling over the Integers, 2017.
"""

from __future__ import annotations

import math
import os
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import PrivacyError

PER_NUMBER = 2.0**-66  # of each probability, as a logarithm
MISSED = 2.0**-114
MOST_NUMBERS = 2**30  # in one sum

_SCALE, _BASE, _DRAWS = 32, 20, 8
_FARTHEST = 31 * _SCALE // 2
STEPS = _SCALE * math.sqrt(sum(_BASE ** (2 * j) for j in range(_DRAWS)))  # of the grid, in a σ
_LARGEST = 2.0**62
_UNDECIDED = np.iinfo(np.int16).max


def widened(noise_multiplier: float, clip_norm: float, numbers: int) -> float:
    """The noise scale that makes up for rounding a sum to the grid.

    Rounding may move the sums of two neighbouring data sets apart by up to a grid step in each of
    the d coordinates: by √d steps in all.

    Args:
        noise_multiplier: planned noise, in units of the clip norm.
        clip_norm: how far one unit moves the sum.
        numbers: d, the number of coordinates of the sum.
    """
    if numbers > MOST_NUMBERS:
        raise PrivacyError(
            f"Secure noise is proven for sums of up to {MOST_NUMBERS:,} numbers, not {numbers:,}."
        )
    rounding = noise_multiplier * math.sqrt(numbers) / STEPS
    if rounding > 2.0**-10:
        raise PrivacyError(
            f"Secure noise has too coarse a grid for a noise multiplier of {noise_multiplier:g} "
            f"in {numbers:,} numbers: use less noise, or a smaller model."
        )
    return noise_multiplier * clip_norm / (1 - rounding)


def on_grid(values: Tensor, scale: float) -> Tensor:
    """Round values to the grid and add Gaussian noise of that scale, in whole grid steps."""
    step = scale / STEPS
    steps = (values.double() / step).round().clamp(-_LARGEST, _LARGEST).to(torch.int64)
    return (steps + torch.from_numpy(numbers(steps.numel())).view_as(steps)).double() * step


def numbers(count: int) -> NDArray[np.int64]:
    """Draw whole numbers from a discrete Gaussian of scale `STEPS`."""
    total = np.zeros(count, np.int64)
    for _ in range(_DRAWS):
        total *= _BASE
        total += _small(count)
    return total


def _small(count: int) -> NDArray[np.int16]:
    """Draw whole numbers from a discrete Gaussian of scale 32.

    Two bytes decide nearly all of them. Where a threshold has the same two first bytes, more bits
    are drawn, so that each is an exact comparison of 128 random bits with the thresholds.
    """
    table = _table()
    first = np.frombuffer(os.urandom(2 * count), np.uint16)
    found = table.by_first[first]
    open_cases = np.flatnonzero(found == _UNDECIDED)
    more = np.frombuffer(os.urandom(8 * len(open_cases)), np.uint64) >> np.uint64(16)
    high = (first[open_cases].astype(np.uint64) << np.uint64(48)) | more
    index = np.searchsorted(table.high, high, side="right")
    for tie in np.flatnonzero(np.isin(high, table.high)):
        low = int.from_bytes(os.urandom(8))
        index[tie] = sum(each <= (int(high[tie]) << 64) | low for each in table.thresholds)
    found[open_cases] = index - _FARTHEST
    return found


class _Table(NamedTuple):
    """Cumulative probabilities × 2^128, their high words, and what the first two bytes decide."""

    thresholds: tuple[int, ...]
    high: NDArray[np.uint64]
    by_first: NDArray[np.int16]


@lru_cache(maxsize=1)
def _table() -> _Table:
    thresholds = _cumulative()
    high = np.array([each >> 64 for each in thresholds], np.uint64)
    lowest = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    least = np.searchsorted(high, lowest, side="left")
    most = np.searchsorted(high, lowest | np.uint64((1 << 48) - 1), side="right")
    by_first = np.where(least == most, least - _FARTHEST, _UNDECIDED).astype(np.int16)
    return _Table(thresholds, high, by_first)


def _cumulative() -> tuple[int, ...]:
    with localcontext(prec=60):
        half = [(-(Decimal(n) ** 2) / (2 * _SCALE**2)).exp() for n in range(_FARTHEST + 1)]
        weights = [*reversed(half[1:]), *half]
        total, so_far, thresholds = sum(weights), Decimal(0), []
        for weight in weights[:-1]:
            so_far += weight
            exact = int((so_far / total * 2**128).to_integral_value())
            thresholds.append(min(exact, 2**128 - 1))
    return tuple(thresholds)
