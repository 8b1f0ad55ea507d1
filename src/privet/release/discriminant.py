"""A classifier straight from released moments: a baseline, a screen for settings, a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.release.embedding import Embedding
from privet.release.targets import GaussianTarget

_SHARED = 2.0  # what a part with one covariance for all classes counts: it has more components


@dataclass(frozen=True, eq=False)
class MomentDiscriminant:
    """A classifier by the likeliest Gaussian, with parts taken as independent.

    Args:
        embedding: the embedding that was released.
        targets: one Gaussian for each class, by part.
    """

    embedding: Embedding
    targets: Mapping[str, GaussianTarget]

    @classmethod
    def quadratic(cls, embedding: Embedding, targets: Mapping[str, GaussianTarget]) -> Self:
        """The discriminant in which every class has its own covariance."""
        identity = torch.eye(embedding.num_classes)
        names = [part.name for part in embedding.parts if torch.equal(part.groups, identity)]
        if not names:
            raise ConfigError("A discriminant needs a part with moments of each class.")
        return cls(embedding, {name: targets[name] for name in names})

    @classmethod
    def linear(cls, embedding: Embedding, targets: Mapping[str, GaussianTarget]) -> Self:
        """The discriminant in which all classes share the mean of their covariances."""
        pooled = {
            name: GaussianTarget(
                each.mean,
                each.covariance.mean(0, keepdim=True).expand_as(each.covariance),
                each.jitter,
            )
            for name, each in targets.items()
        }
        return cls.quadratic(embedding, pooled)

    @property
    def temperature(self) -> float:
        """A temperature that makes up for dependent parts: about their number."""
        return sum(_weight(each) for each in self.targets.values())

    def scores(self, images: Tensor) -> Tensor:
        """The log-likelihood of each class, up to a constant: (N, classes)."""
        with torch.no_grad():
            features = self.embedding.features(images)
            sources = {part.name: part.source for part in self.embedding.parts}
            return torch.stack(
                [
                    _weight(target) * _log_likelihood(target, features[sources[name]])
                    for name, target in self.targets.items()
                ]
            ).sum(0)

    def probabilities(self, images: Tensor, temperature: float = 1.0) -> Tensor:
        """Soft labels (N, classes); a temperature above 1 makes up for dependent parts."""
        return (self.scores(images) / temperature).softmax(1)


def _weight(target: GaussianTarget) -> float:
    return 1.0 if len(target.covariance) == len(target.mean) else _SHARED


def _log_likelihood(target: GaussianTarget, z: Tensor) -> Tensor:
    """The log-likelihood of features under each Gaussian; of positions, their mean."""
    if z.dim() == 3:
        return _log_likelihood(target, z.flatten(0, 1)).unflatten(0, z.shape[:2]).mean(1)  # type: ignore[no-untyped-call,no-any-return]
    whitened, means = z @ target.whitening, target.mean[:, None] @ target.whitening
    distances = (whitened - means).square().sum(2)
    return -(distances + target.log_determinant[:, None]).T / 2
