"""Direct DP logistic regression: what the same ε buys without any images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.augment import to_float
from privet.data import ImageSet
from privet.learn.equation import INPUTS, TARGETS
from privet.measure import predictions
from privet.models import MLP
from privet.recipes.methods import dp_sgd
from privet.recipes.training_config import Material, TrainingConfig
from release_data import encoder, public_rows
from release_making import Terms

_BATCH = 500
_PUBLIC = 5000  # images that centre features


class Vectors:
    """From images to vectors of length 1.

    Args:
        name: `pixels`, or `features`: pooled ones of an encoder, around their public mean and in
            units of their public deviations.
        public: the name of the public images that taught the encoder.
        folder: where they lie.
    """

    def __init__(self, name: str, public: str, folder: Path) -> None:
        self._network: nn.Module = nn.Flatten()
        self._mean, self._scale = torch.tensor(-1.0), torch.tensor(1.0)
        if name == "features":
            self._network = encoder(public, folder)
            rows = public_rows(public, folder)
            some = rows.sample(_PUBLIC, torch.Generator().manual_seed(0))
            found = self._outputs(some.inputs)
            self._mean, self._scale = found.mean(0), found.std(0) + 1e-3

    def __call__(self, images: ImageSet) -> Tensor:
        """One vector each."""
        found = self._outputs(torch.from_numpy(np.asarray(images.images[:])))
        return F.normalize((found - self._mean) / self._scale)

    def _outputs(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            batches = torch.split(images, _BATCH)
            return torch.cat([self._network(to_float(batch)) for batch in batches])


def dp_logistic(
    private: ImageSet,
    test: ImageSet,
    vectors: Vectors,
    terms: Terms,
    settings: dict[str, Any],
    *,
    seed: int,
) -> tuple[Tensor, str]:
    """Predicted classes of test images, and the guarantee."""
    inputs, labels = vectors(private), np.asarray(private.labels)
    torch.manual_seed(seed)
    model = MLP(inputs.shape[1], (), private.num_classes)
    material = Material(
        input_shape=tuple(inputs.shape[1:]), num_classes=private.num_classes, pixels=False
    )
    with terms.hedge({INPUTS: inputs.numpy(), TARGETS: labels}) as hedge:
        trained = dp_sgd(hedge, model, TrainingConfig(seed=seed, **settings), material)
    guarantee = "no noise" if terms.silent else str(trained.certificate.guarantee)
    return predictions(model, vectors(test)), guarantee
