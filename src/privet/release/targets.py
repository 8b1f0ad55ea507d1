"""From noised sums to what synthetic images are to match: post-processing, free to repeat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.hedge import NoisySum
from privet.release.embedding import COUNTS, Embedding
from privet.release.parts import Moments
from privet.release.triangles import packed_dot, packed_size

_NO_NOISE = 1e-30


@dataclass(frozen=True, eq=False)
class GaussianTarget:
    """A mean and a covariance for each group, or one covariance for all of them.

    Args:
        mean: (groups, D).
        covariance: (groups or 1, D, D), positive definite, jitter included.
        jitter: (groups or 1,), what was added to the diagonal; the synthetic side adds it too.
    """

    mean: Tensor
    covariance: Tensor
    jitter: Tensor

    @cached_property
    def log_determinant(self) -> Tensor:
        """The log-determinant of each covariance."""
        return torch.logdet(self.covariance)

    @cached_property
    def whitening(self) -> Tensor:
        """W with W Wᵀ the inverse of the covariance: x W has the identity as its covariance."""
        factor = torch.linalg.cholesky(self.covariance)
        identity = torch.eye(factor.shape[-1]).to(factor)
        inverse: Tensor = torch.linalg.solve_triangular(factor, identity, upper=False)
        return inverse.mT


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How noised moments become proper Gaussians.

    Args:
        jitter: γ; this times the most negative eigenvalue is added (SPS, Algorithm 3).
        shared_jitter: the same for covariances that all groups share: they are large and have one
            noise, which shows in that eigenvalue.
        least_jitter: the least that is added, in units of squared features.
        even_jitter: add the mean jitter to every group: which group is likeliest must not hang on
            how much was added to each.
        shrinkage: how far each group's covariance moves to the mean of all groups; `None` goes as
            far as the groups' differences are noise (James and Stein).
        least_shrinkage: the least shrinkage where `shrinkage` is `None`.
    """

    jitter: float = 2.0
    shared_jitter: float = 1.0
    least_jitter: float = 1e-4
    even_jitter: bool = False
    shrinkage: float | None = 0.0
    least_shrinkage: float = 0.0

    def __post_init__(self) -> None:
        if min(self.jitter, self.shared_jitter) < 0 or not (
            self.least_jitter > 0
            and 0 <= (self.shrinkage or 0) <= 1
            and 0 <= self.least_shrinkage <= 1
        ):
            raise ConfigError("Jitters must be positive and the shrinkage between 0 and 1.")

    def __call__(self, moments: Moments, noise: Tensor) -> GaussianTarget:
        """Clip negative eigenvalues to 0 and add a jitter of the size of the most negative one.

        Args:
            moments: the noised moments as released.
            noise: the standard deviation of each second moment's noise, by group.
        """
        assert moments.second is not None
        mean = moments.mean.double()
        covariance = self._shrunk(Moments(mean, moments.second.double()).covariance, noise.double())
        values, vectors = torch.linalg.eigh(covariance)
        times = self.shared_jitter if len(values) < len(mean) else self.jitter
        jitter = (-times * values[:, 0]).clamp(min=self.least_jitter)
        if self.even_jitter:
            jitter = jitter.mean().expand_as(jitter)
        kept = values.clamp(min=0) + jitter[:, None]
        cleaned = (vectors * kept[:, None, :]) @ vectors.transpose(1, 2)
        single = [each.to(moments.mean.dtype) for each in (mean, cleaned, jitter)]
        return GaussianTarget(*single)

    def _shrunk(self, covariance: Tensor, noise: Tensor) -> Tensor:
        if len(covariance) == 1:
            return covariance
        variance = noise.square() + _NO_NOISE
        shares = variance.min() / variance  # a tiny class is nearly all noise
        shares = shares / shares.sum()
        pooled = (shares[:, None, None] * covariance).sum(0, keepdim=True)
        if self.shrinkage is not None:
            return covariance.lerp(pooled, self.shrinkage)
        gap = covariance - pooled
        of_gap = variance * (1 - 2 * shares) + (shares.square() * variance).sum()
        expected = packed_size(covariance.shape[-1]) * of_gap
        kept = 1 - expected / packed_dot(gap, gap).clamp(min=_NO_NOISE)
        kept = kept.clamp(min=0, max=1 - self.least_shrinkage)
        return pooled + kept[:, None, None] * gap


def class_totals(embedding: Embedding, released: NoisySum) -> Tensor:
    """Each class's released total weight, raised to at least one deviation of its noise."""
    if embedding.counts is None:
        raise ConfigError("This release holds no counts: declare them.")
    least = released.noise_scale
    return released[f"{COUNTS}.mean"][:, 0].clamp(min=least) / embedding.count_weight


def class_shares(embedding: Embedding, released: NoisySum) -> Tensor:
    """Each class's released share of the images; equal shares if no count is above 0."""
    if embedding.counts is None:
        raise ConfigError("This release holds no counts: declare them.")
    counts = released[f"{COUNTS}.mean"][:, 0].double().clamp(min=0)
    if not counts.sum() > 0:
        counts = torch.ones_like(counts)
    return counts / counts.sum()


def released_moments(
    embedding: Embedding, released: NoisySum, declared: Tensor | None = None
) -> dict[str, Moments]:
    """Released moments by part, over released class counts or over declared ones."""
    totals = class_totals(embedding, released) if declared is None else declared
    return embedding.as_moments(released.blocks, totals)


def gaussian_targets(
    embedding: Embedding, released: NoisySum, cleaning: Cleaning, declared: Tensor | None = None
) -> dict[str, GaussianTarget]:
    """Cleaned Gaussians of all parts that have second moments, by name."""
    totals = class_totals(embedding, released) if declared is None else declared
    moments = released_moments(embedding, released, declared)
    parts = {part.name: part for part in embedding.parts}
    targets = {}
    for name, own in moments.items():
        if own.second is not None:
            spread = parts[parts[name].spread or name]
            weights = spread.second_weight * (totals @ spread.groups.to(totals))
            targets[name] = cleaning(own, released.noise_scale / weights)
    return targets
