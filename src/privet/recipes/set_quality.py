"""How good a synthetic set is, by all measures at once, on images that are not private.

Every figure but the last depends on the network that looks at images, so its name stands with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.errors import DataError
from privet.measure import (
    Accuracy,
    accuracy,
    frechet_distance,
    memorisation,
    precision_and_recall,
    predictions,
)
from privet.models import ConvEncoder
from privet.public import PublicRows
from privet.share import ClassifierTraining, train_classifier

Extractor = Callable[[Tensor], Tensor]
"""From images (N, C, H, W) in [-1, 1] to features (N, D)."""

_MOST = 5000  # images of each set: measures compare all pairs
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class SetQuality:
    """Of a synthetic set.

    Args:
        extractor: what looked at images.
        images: synthetic ones that were looked at.
        frechet: the Fréchet distance to test images; FID if Inception looked.
        precision: the share of synthetic images among test images.
        recall: the share of test images among synthetic ones.
        memorisation: how many lie nearer to images that the generator saw than to test images: 1/2
            where nothing is remembered; none if it is not known what it saw.
        cas: the test accuracy of a CNN that learned from synthetic images alone.
    """

    extractor: str
    images: int
    frechet: float
    precision: float
    recall: float
    memorisation: float | None
    cas: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def set_quality(
    synthetic: PublicRows,
    test: PublicRows,
    *,
    extractor: Extractor,
    name: str,
    seen: PublicRows | None = None,
    training: ClassifierTraining | None = None,
) -> SetQuality:
    """Every measure.

    Args:
        synthetic: images and labels.
        test: real ones that nobody learned from, declared not to be private.
        extractor: frozen, in evaluation mode.
        name: of the extractor.
        seen: what the generator learned from, if that is public.
        training: of the CNN.
    """
    if min(len(synthetic), len(test)) < 4:
        raise DataError("A set of fewer than four images has no quality to speak of.")
    made, real = (features(extractor, each) for each in (synthetic, test))
    precision, recall = precision_and_recall(real, made)
    return SetQuality(
        extractor=name,
        images=len(made),
        frechet=frechet_distance(real, made),
        precision=precision,
        recall=recall,
        memorisation=None if seen is None else memorisation(made, features(extractor, seen), real),
        cas=classification_accuracy_score(synthetic, test, training).overall,
    )


def classification_accuracy_score(
    synthetic: PublicRows, test: PublicRows, training: ClassifierTraining | None = None
) -> Accuracy:
    """CAS (Ravuri and Vinyals, 2019): of a CNN from scratch, on real images."""
    training = training or ClassifierTraining()
    classes = 1 + max(int(each.targets.max()) for each in (synthetic, test))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        body = ConvEncoder(synthetic.inputs.shape[3])
        network = nn.Sequential(body, nn.Linear(body.num_features, classes))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train_classifier(network, synthetic.inputs, synthetic.targets, training)
    found = predictions(lambda images: network(to_float(images)), test.inputs)
    return accuracy(found, test.targets, classes)


def features(extractor: Extractor, rows: PublicRows) -> Tensor:
    """Of as many images as measures can compare, the first ones."""
    with torch.no_grad():
        batches = torch.split(rows.inputs[:_MOST], _BATCH)
        return torch.cat([extractor(to_float(batch)).flatten(1).float() for batch in batches])
