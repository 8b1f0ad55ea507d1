"""The classifiers of the release study: what a synthetic set is worth on real test images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from privet.augment import to_float
from privet.data import ImageSet
from privet.measure import Accuracy, accuracy, predictions
from privet.models import ConvEncoder
from privet.share import ClassifierTraining, train_classifier

NO_NETWORKS = ("logistic", "mlp")  # scikit-learn's
NETWORKS = ("cnn", "encoder")
CLASSIFIERS = NO_NETWORKS + NETWORKS
_MOST = 10_000  # images for scikit-learn's classifiers, which gain little from more of them
Train = Callable[[nn.Module, Tensor, Tensor, ClassifierTraining], None]


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What classifiers are tested on, and how those that are networks are trained.

    Args:
        test: real images.
        body: a public encoder to be fine-tuned, made anew for each set.
        cnn: training from scratch.
        fine_tuning: training of the encoder.
        seed: of first weights.
        train: what trains a network.
    """

    test: ImageSet
    body: Callable[[], ConvEncoder]
    cnn: ClassifierTraining
    fine_tuning: ClassifierTraining
    seed: int = 0
    train: Train = train_classifier

    def accuracies(
        self, images: NDArray[np.uint8], labels: NDArray[Any], kinds: Sequence[str]
    ) -> dict[str, Accuracy]:
        """Of one classifier of each kind; scikit-learn's take no soft labels."""
        hard = labels.ndim == 1
        return {
            kind: self.accuracy(kind, images, labels) for kind in kinds if hard or kind in NETWORKS
        }

    def accuracy(self, kind: str, images: NDArray[np.uint8], labels: NDArray[Any]) -> Accuracy:
        """`logistic`, `mlp`, `cnn` or `encoder`."""
        if kind in NO_NETWORKS:
            return self.measured(_sklearn(kind, images, labels, self.test, self.seed))
        network = self.network(kind, images.shape[3])
        config = self.cnn if kind == "cnn" else self.fine_tuning
        self.train(network, torch.from_numpy(images), torch.from_numpy(labels), config)
        tests = torch.from_numpy(np.asarray(self.test.images[:]))
        return self.measured(predictions(lambda batch: network(to_float(batch)), tests))

    def network(self, kind: str, channels: int) -> nn.Module:
        """With its first weights."""
        torch.manual_seed(self.seed)
        body = ConvEncoder(channels) if kind == "cnn" else self.body()
        network = nn.Sequential(body, nn.Linear(body.num_features, self.test.num_classes))
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def measured(self, predicted: Tensor) -> Accuracy:
        """Against the test labels."""
        truth = torch.from_numpy(np.asarray(self.test.labels))
        return accuracy(predicted, truth, self.test.num_classes)


def with_steps(config: ClassifierTraining, images: int, steps: int) -> ClassifierTraining:
    """As many epochs as make about so many steps: small sets are seen more often."""
    return replace(config, epochs=max(1, round(steps / max(1, images // config.batch_size))))


def _sklearn(
    kind: str, images: NDArray[np.uint8], labels: NDArray[Any], test: ImageSet, seed: int
) -> Tensor:
    model = (
        LogisticRegression(max_iter=200)
        if kind == "logistic"
        else MLPClassifier(random_state=seed, early_stopping=True)
    )
    tests = np.asarray(test.images[:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = images[:_MOST]
        model.fit(some.reshape(len(some), -1) / 255, labels[:_MOST])
    return torch.from_numpy(np.asarray(model.predict(tests.reshape(len(tests), -1) / 255)))
