"""How far a synthetic set is from a real one, by features of their images.

Features are the caller's: every figure depends on their extractor, which must be named with it.

References:
    Heusel et al., 2017 (FID); Salimans et al., 2016 (Inception score); Kynkäänniemi et al., 2019
    (precision and recall); Naeem et al., 2020 (density and coverage).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privet.errors import DataError

_ROWS = 1024  # of a matrix of distances at once, so that memory does not grow with a set's square


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """The Fréchet distance between Gaussians fitted to features (N, D): FID for Inception's."""
    require_pair(first, second, 2)
    (mean_a, cov_a), (mean_b, cov_b) = _moments(first), _moments(second)
    values, vectors = torch.linalg.eigh(cov_a)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    # The trace of (Σa Σb)^½ is that of the root of a symmetric matrix with the same eigenvalues.
    shared = torch.linalg.eigvalsh(root @ cov_b @ root).clamp(min=0).sqrt().sum()
    gap = (mean_a - mean_b).square().sum()
    return max(0.0, float(gap + cov_a.trace() + cov_b.trace() - 2 * shared))


def inception_score(probabilities: Tensor, splits: int = 10) -> float:
    """Exp of the mean KL divergence of (N, classes) from their mean, averaged over splits."""
    require_rows(probabilities, splits)
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
    require_pair(real, synthetic, neighbours + 1)
    return _covered(real, synthetic, neighbours), _covered(synthetic, real, neighbours)


def density_and_coverage(
    real: Tensor, synthetic: Tensor, neighbours: int = 5
) -> tuple[float, float]:
    """How densely synthetic features lie where real ones do, and how many real ones they reach.

    A real point's ball goes as far as its k-th neighbour. Density is the number of balls that a
    synthetic point lies in, over k: about 1 if both sets are alike, more if synthetic points keep
    to the middle of real ones. Coverage is the share of balls that hold a synthetic point. A real
    outlier, whose ball is large, raises precision and hardly density.
    """
    require_pair(real, synthetic, 1)
    radii = _radii(real, neighbours)
    held, reached = 0, torch.zeros(len(real), dtype=torch.bool, device=real.device)
    for part in torch.split(synthetic, _ROWS):
        inside = torch.cdist(part, real) < radii
        held, reached = held + int(inside.sum()), reached | inside.any(0)
    return held / (neighbours * len(synthetic)), float(reached.double().mean())


def nearest(points: Tensor, others: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """Distances (N, count) from each point to its nearest others, rising, and which those are."""
    require_rows(others, count)
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
    radii = _radii(manifold, neighbours)
    found = [(torch.cdist(part, manifold) <= radii).any(1) for part in torch.split(points, _ROWS)]
    return float(torch.cat(found).double().mean())


def _radii(points: Tensor, neighbours: int) -> Tensor:
    """The distance from each point to its k-th neighbour."""
    within, _ = nearest(points, points, neighbours + 1)  # the nearest is the point itself
    return within[:, -1]


def _moments(features: Tensor) -> tuple[Tensor, Tensor]:
    rows = features.double()
    return rows.mean(0), torch.cov(rows.T).reshape(rows.shape[1], rows.shape[1])


def require_pair(first: Tensor, second: Tensor, least: int) -> None:
    """Refuse two sets that cannot be compared."""
    for rows in (first, second):
        require_rows(rows, least)
    if first.shape[1] != second.shape[1]:
        raise DataError(
            f"Sets of {first.shape[1]} and of {second.shape[1]} features cannot be compared: give "
            "features of one extractor."
        )


def require_rows(rows: Tensor, least: int) -> None:
    """Refuse a set that is too small, or that holds values that are not finite."""
    if rows.ndim != 2 or len(rows) < least:
        raise DataError(
            f"A set of shape {tuple(rows.shape)} is too small: give {least} rows or more."
        )
    if not torch.isfinite(rows).all():
        raise DataError("Some features are not finite: look at the extractor and its images.")
