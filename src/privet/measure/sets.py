"""How far a synthetic set is from a real one, by features of their images.

Features are the caller's: every figure depends on their extractor, which must be named with it.

References:
    Heusel et al., 2017 (FID); Salimans et al., 2016 (Inception score); Kynkäänniemi et al., 2019
    (precision and recall).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privet.errors import DataError

_ROWS = 1024  # of a matrix of distances at once, so that memory does not grow with a set's square


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Between Gaussians with the moments of two sets of features (N, D): FID for Inception's."""
    (mean_a, cov_a), (mean_b, cov_b) = _moments(first), _moments(second)
    values, vectors = torch.linalg.eigh(cov_a)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    # The trace of (Σa Σb)^½ is that of the root of a symmetric matrix with the same eigenvalues.
    shared = torch.linalg.eigvalsh(root @ cov_b @ root).clamp(min=0).sqrt().sum()
    gap = (mean_a - mean_b).square().sum()
    return max(0.0, float(gap + cov_a.trace() + cov_b.trace() - 2 * shared))


def inception_score(probabilities: Tensor, splits: int = 10) -> float:
    """Exp of the mean KL divergence of (N, classes) from their mean, averaged over splits."""
    _require(probabilities, splits)
    scores = []
    for part in torch.tensor_split(probabilities.double(), splits):
        overall = part.mean(0, keepdim=True)
        ratios = torch.where(part > 0, part * (part / overall).log(), 0.0)
        scores.append(math.exp(float(ratios.sum(1).mean())))
    return sum(scores) / len(scores)


def precision_and_recall(
    real: Tensor, synthetic: Tensor, neighbours: int = 3
) -> tuple[float, float]:
    """The share of synthetic features among real ones, and of real ones among synthetic ones.

    A point is among others if it is as near to one of them as that one's k-th neighbour is.
    """
    for features in (real, synthetic):
        _require(features, neighbours + 1)
    return _covered(real, synthetic, neighbours), _covered(synthetic, real, neighbours)


def nearest(points: Tensor, others: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """Distances to the nearest of others, (N, count) in rising order, and which they are."""
    _require(others, count)
    found = [
        torch.cdist(part, others).topk(count, largest=False) for part in torch.split(points, _ROWS)
    ]
    return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])


def memorisation(synthetic: Tensor, seen: Tensor, unseen: Tensor) -> float:
    """How much nearer synthetic features lie to what a generator saw than to what it did not.

    The share of synthetic points whose nearest neighbour is a seen one, where sets are cut to the
    same size: about 1/2 for a generator that remembers nothing, 1 for one that repeats. The first
    rows are kept, so rows come in random order.
    """
    size = min(len(seen), len(unseen))
    to_seen, _ = nearest(synthetic, seen[:size])
    to_unseen, _ = nearest(synthetic, unseen[:size])
    nearer = (to_seen < to_unseen).double() + (to_seen == to_unseen).double() / 2
    return float(nearer.mean())


def _covered(manifold: Tensor, points: Tensor, neighbours: int) -> float:
    within, _ = nearest(manifold, manifold, neighbours + 1)  # the nearest is the point itself
    radii = within[:, -1]
    found = [(torch.cdist(part, manifold) <= radii).any(1) for part in torch.split(points, _ROWS)]
    return float(torch.cat(found).double().mean())


def _moments(features: Tensor) -> tuple[Tensor, Tensor]:
    _require(features, 2)
    rows = features.double()
    return rows.mean(0), torch.cov(rows.T).reshape(rows.shape[1], rows.shape[1])


def _require(rows: Tensor, least: int) -> None:
    if rows.ndim != 2 or len(rows) < least:
        raise DataError(
            f"A set of shape {tuple(rows.shape)} is too small: give {least} rows or more."
        )
