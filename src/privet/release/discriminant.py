"""A linear discriminant straight from released moments: a baseline, a screen, a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.release.embedding import Embedding
from privet.release.targets import GaussianTarget


@dataclass(frozen=True, eq=False)
class MomentDiscriminant:
    """Class means and a shared precision for each part that knows classes, parts independent.

    Args:
        embedding: what was released.
        means: (classes, D) by part.
        precisions: (D, D) by part.
    """

    embedding: Embedding
    means: Mapping[str, Tensor]
    precisions: Mapping[str, Tensor]

    @classmethod
    def of(cls, embedding: Embedding, targets: Mapping[str, GaussianTarget]) -> MomentDiscriminant:
        """From cleaned Gaussians; covariances of classes are averaged, and so is their noise."""
        identity = torch.eye(embedding.num_classes)
        names = [part.name for part in embedding.parts if torch.equal(part.groups, identity)]
        if not names:
            raise ConfigError("A discriminant needs a part with moments of each class.")
        return cls(
            embedding,
            {name: targets[name].mean for name in names},
            {name: torch.linalg.inv(targets[name].covariance.mean(0)) for name in names},
        )

    def scores(self, images: Tensor) -> Tensor:
        """Log-likelihoods up to what all classes share: (N, classes)."""
        with torch.no_grad():
            features = self.embedding.features(images)
            found = []
            for name, mean in self.means.items():
                directions = mean @ self.precisions[name]
                found.append(features[name] @ directions.T - (directions * mean).sum(1) / 2)
            return torch.stack(found).sum(0)

    def probabilities(self, images: Tensor, temperature: float = 1.0) -> Tensor:
        """Soft labels; parts are not independent, so a temperature above 1 makes up for it."""
        return (self.scores(images) / temperature).softmax(1)
