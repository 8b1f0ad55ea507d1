"""How far apart two sets are, by means of kernels between features of their images.

Both figures estimate a squared distance without bias: of sets that are alike they lie around 0, a
little below it as often as above. They depend on the extractor of features, as those in `sets` do.

References:
    Gretton et al., A Kernel Two-Sample Test, 2012, equation 3 (the unbiased squared MMD);
    Bińkowski et al., Demystifying MMD GANs, 2018 (KID).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import ConfigError
from privet.measure.sets import require_pair, require_rows

# scikit-learn is imported where it is used: it takes a second, and most commands do without it.

Rows = NDArray[np.float64]
Kernel = Callable[[Rows, Rows], Rows]

_SUBSETS, _SUBSET = 100, 1000  # as published
_AT_ONCE = 1024  # rows of a matrix of kernels, so that memory does not grow with a set's square
_FOR_MEDIAN = 1000  # rows are enough


@dataclass(frozen=True, kw_only=True)
class KernelDistance:
    """The kernel inception distance (KID), over random subsets.

    Args:
        mean: the mean over subsets.
        std: the standard deviation over subsets, as published: not the error of the mean.
        subsets: the number of subsets.
        size: rows of each set in a subset.
    """

    mean: float
    std: float
    subsets: int
    size: int


def kernel_distance(
    real: Tensor,
    synthetic: Tensor,
    *,
    subsets: int = _SUBSETS,
    size: int | None = None,
    seed: int = 0,
) -> KernelDistance:
    """The squared MMD of features (N, D) with the kernel (x·y / D + 1)³: KID for Inception's.

    Args:
        real: features of real images.
        synthetic: features of synthetic images.
        subsets: the number of random subsets.
        size: rows of each set in a subset; 1,000, or half of the smaller set if that is less, since
            subsets that are all the same have no deviation.
        seed: the seed of the subsets.
    """
    from sklearn.metrics.pairwise import polynomial_kernel

    if size is None:
        size = max(2, min(_SUBSET, len(real) // 2, len(synthetic) // 2))
    if size < 2 or subsets < 1:
        raise ConfigError(f"{subsets} subsets of {size} rows: give 1 or more, of 2 or more.")
    require_pair(real, synthetic, size)
    kernel = partial(polynomial_kernel, degree=3, coef0=1)
    rng, (x, y) = np.random.default_rng(seed), (_rows(real), _rows(synthetic))

    def of_some() -> float:
        chosen = (rng.choice(len(each), size, replace=False) for each in (x, y))
        return _squared_mmd(x[next(chosen)], y[next(chosen)], kernel)

    found = np.array([of_some() for _ in range(subsets)])
    return KernelDistance(
        mean=float(found.mean()), std=float(found.std()), subsets=subsets, size=size
    )


def mean_discrepancy(real: Tensor, synthetic: Tensor, length_scale: float | None = None) -> float:
    """The squared MMD of features (N, D) with the kernel exp(-|x - y|² / 2ℓ²).

    Args:
        real: features of real images.
        synthetic: features of synthetic images.
        length_scale: ℓ; the median distance between real rows if left out, so that all synthetic
            sets are measured by the same rule.
    """
    from sklearn.metrics.pairwise import rbf_kernel

    require_pair(real, synthetic, 2)
    scale = median_distance(real) if length_scale is None else length_scale
    if not scale > 0:
        raise ConfigError(f"The length scale is {scale}: give a number above 0.")
    kernel = partial(rbf_kernel, gamma=1 / (2 * scale**2))
    return _squared_mmd(_rows(real), _rows(synthetic), kernel)


def median_distance(rows: Tensor) -> float:
    """The median distance between rows that differ; 1 if none do. Of many rows a sample is used."""
    from scipy.spatial.distance import pdist

    require_rows(rows, 2)
    order = np.random.default_rng(0).permutation(len(rows))[:_FOR_MEDIAN]
    distances = pdist(_rows(rows)[order])
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _squared_mmd(x: Rows, y: Rows, kernel: Kernel) -> float:
    between = sum(float(block.sum()) for _, block in _blocks(x, y, kernel))
    within = _mean_of_others(x, kernel) + _mean_of_others(y, kernel)
    return within - 2 * between / (len(x) * len(y))


def _mean_of_others(rows: Rows, kernel: Kernel) -> float:
    """The mean kernel over all pairs of different rows."""
    blocks = _blocks(rows, rows, kernel)
    total = sum(float(block.sum() - np.trace(block, offset=start)) for start, block in blocks)
    return total / (len(rows) * (len(rows) - 1))


def _blocks(x: Rows, y: Rows, kernel: Kernel) -> Iterator[tuple[int, Rows]]:
    """Blocks of rows of the kernel matrix, each with the number of its first row."""
    for start in range(0, len(x), _AT_ONCE):
        yield start, kernel(x[start : start + _AT_ONCE], y)


def _rows(features: Tensor) -> Rows:
    return features.double().cpu().numpy()
