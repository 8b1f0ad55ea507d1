"""The standard panel: what a synthetic set teaches the classifiers that people use.

What was released is free to use, so anything goes here that may not touch private rows: BatchNorm,
as many epochs as one likes, ensembles.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.errors import ConfigError, DataError
from privet.models import ConvEncoder, ConvNet, ResNet9, WideResNet
from privet.share.classifying import ClassifierTraining, train_classifier

ImageShape = tuple[int, int, int]
Network = Callable[[ImageShape, int], nn.Module]
"""From the shape of images and the number of classes to a network with its first weights."""
Judge = Callable[[Tensor], Tensor]
"""From images (N, H, W, C) in uint8 to probabilities of classes (N, classes)."""
OnStep = Callable[[int, int], None]

CLASSICAL = ("logistic", "mlp")
_LEAST_STEPS = 200  # however few images there are
_BATCH = 500


def _cnn(shape: ImageShape, num_classes: int) -> nn.Module:
    return with_head(ConvEncoder(shape[2]), num_classes)


def _conv_net(shape: ImageShape, num_classes: int) -> nn.Module:
    return ConvNet(num_classes, shape[2], image_size=min(shape[:2]), width=64)


def _resnet(shape: ImageShape, num_classes: int) -> nn.Module:
    return ResNet9(num_classes, shape[2], width=32)


def _wide_resnet(shape: ImageShape, num_classes: int) -> nn.Module:
    return WideResNet(16, 2, num_classes, shape[2], norm="batch")


NETWORKS: Mapping[str, Network] = {
    "cnn": _cnn,
    "conv-net": _conv_net,
    "resnet-9": _resnet,
    "wide-resnet": _wide_resnet,
}
PANEL = (*CLASSICAL, *NETWORKS)


@dataclass(frozen=True, eq=False)
class Lesson:
    """The labelled images that a classifier learns from.

    Args:
        images: uint8 (N, H, W, C).
        labels: the class of each image.
        num_classes: the number of classes, those without images included.
    """

    images: Tensor
    labels: Tensor
    num_classes: int

    @property
    def shape(self) -> ImageShape:
        """Height, width and channels of an image."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels


def enough_training(images: int) -> ClassifierTraining:
    """The usual training, with more epochs where images are few."""
    usual = ClassifierTraining()
    steps = max(1, images // usual.batch_size)  # of an epoch
    return replace(usual, epochs=max(usual.epochs, math.ceil(_LEAST_STEPS / steps)))


def with_head(body: ConvEncoder, num_classes: int) -> nn.Sequential:
    """An encoder with a linear layer behind it, to be trained together."""
    return nn.Sequential(body, nn.Linear(body.num_features, num_classes))


def taught(
    name: str,
    lesson: Lesson,
    training: ClassifierTraining | None = None,
    *,
    on_step: OnStep | None = None,
) -> Judge:
    """Train one classifier of the panel, by its name, and return how it judges images."""
    if name in CLASSICAL:
        return _classical(name, lesson, 0 if training is None else training.seed)
    if name not in NETWORKS:
        raise ConfigError(f"There is no classifier {name!r}: choose {', '.join(PANEL)}.")
    return taught_network(NETWORKS[name], lesson, training, on_step=on_step)


def taught_network(
    network: Network,
    lesson: Lesson,
    training: ClassifierTraining | None = None,
    *,
    on_step: OnStep | None = None,
) -> Judge:
    """Train a network of one's own or fine-tune a pretrained one; return how it judges images."""
    model = trained(network, lesson, training, on_step=on_step)

    def judge(images: Tensor) -> Tensor:
        batches = torch.split(images, _BATCH)
        return torch.cat([model(to_float(batch)).softmax(1) for batch in batches])

    return judge


def trained(
    network: Network,
    lesson: Lesson,
    training: ClassifierTraining | None = None,
    *,
    on_step: OnStep | None = None,
) -> nn.Module:
    """Train a network and return it in eval mode."""
    training = training or enough_training(len(lesson.images))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = network(lesson.shape, lesson.num_classes)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train_classifier(model, lesson.images, lesson.labels, training, on_step)
    return model.requires_grad_(False)


def ensemble(
    members: int, teach: Callable[[ClassifierTraining], Judge], training: ClassifierTraining
) -> Judge:
    """A judge that averages several classifiers, which differ in their seeds."""
    if members < 1:
        raise ConfigError(f"An ensemble of {members}: give 1 or more.")
    seeds = range(training.seed, training.seed + members)
    judges = [teach(replace(training, seed=seed)) for seed in seeds]

    def judge(images: Tensor) -> Tensor:
        return torch.stack([each(images) for each in judges]).mean(0)

    return judge


def _classical(name: str, lesson: Lesson, seed: int) -> Judge:
    """Train a classifier of scikit-learn on pixels from 0 to 1."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    classes = torch.unique(lesson.labels)
    if len(classes) < 2:
        raise DataError("A classifier needs images of two classes or more.")
    model = (
        LogisticRegression(max_iter=200)
        if name == "logistic"
        else MLPClassifier(random_state=seed, early_stopping=len(lesson.images) >= _BATCH)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(_flat(lesson.images), lesson.labels.numpy())

    def judge(images: Tensor) -> Tensor:
        found = torch.zeros(len(images), lesson.num_classes)
        found[:, classes] = torch.from_numpy(np.asarray(model.predict_proba(_flat(images)))).float()
        return found

    return judge


def _flat(images: Tensor) -> Any:
    return images.flatten(1).numpy() / 255
