"""Networks that look at images of a set: each sees other things, so figures stand with its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch

from privet.errors import ConfigError
from privet.models import efficientnet_lite
from privet.models.inception import Inception
from privet.public import PublicRows
from privet.recipes.feature_models import GlyphHead
from privet.recipes.releases import OnStep
from privet.recipes.set_quality import Extractor, classifier
from privet.share.panel import enough_training

_IMAGE_SIZE = 112
_GLYPHS = GlyphHead()


@dataclass(frozen=True, kw_only=True)
class Eye:
    """A network that looks at images, and the test images that it is used with.

    Args:
        name: in words, with all that figures depend on.
        features: what it sees.
        probabilities: from images to class probabilities; None if it does not tell classes apart.
        test: test images that it did not learn from.
        taught_by: test images that it learned from; None if there are none.
    """

    name: str
    features: Extractor
    probabilities: Extractor | None
    test: PublicRows
    taught_by: PublicRows | None = None


Look = Callable[[PublicRows, int, OnStep | None], Eye]
"""Makes an `Eye` of test images and the number of classes; tells of its training if it has one."""


def _cnn(test: PublicRows, num_classes: int, on_step: OnStep | None = None) -> Eye:
    """A small CNN that half of the test images taught, so that the other half is new to it."""
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))
    half, other = (test.select(each) for each in torch.tensor_split(order, 2))
    if len(set(half.targets.tolist())) < 2:
        raise ConfigError(
            "The extractor cnn learns from test images of two classes or more: give more of them "
            "with --test, or another --extractor."
        )
    # Smoothed labels would keep it from being sure, and the Inception score low.
    training = replace(enough_training(len(half)), label_smoothing=0.0)
    network = classifier(half, num_classes, training, on_step)
    return Eye(
        name=f"cnn, taught by {len(half):,} other test images",
        features=network[0],
        probabilities=lambda images: network(images).softmax(1),
        test=other,
        taught_by=half,
    )


def _efficientnet(
    version: int, test: PublicRows, num_classes: int, on_step: OnStep | None = None
) -> Eye:
    """An EfficientNet-Lite that was trained on ImageNet, whose classes are other ones."""
    return Eye(
        name=f"efficientnet-lite{version}, images at {_IMAGE_SIZE}×{_IMAGE_SIZE}",
        features=efficientnet_lite(version, _IMAGE_SIZE),
        probabilities=None,
        test=test,
    )


def _glyphs(test: PublicRows, num_classes: int, on_step: OnStep | None = None) -> Eye:
    """The encoder that comes with Privet: the same for all sets, and taught by none of them."""
    return Eye(
        name=f"glyphs, {_GLYPHS.num_features} features of the encoder that comes with Privet",
        features=_GLYPHS.encoder(),
        probabilities=None,
        test=test,
    )


def _inception(test: PublicRows, num_classes: int, on_step: OnStep | None = None) -> Eye:
    """The network that gave the Fréchet Inception distance its name; six images a second."""
    return Eye(
        name="Inception, 2048 features: the Fréchet distance is FID",
        features=Inception(),
        probabilities=None,
        test=test,
    )


EXTRACTORS: Mapping[str, Look] = {
    "cnn": _cnn,
    "efficientnet-lite0": partial(_efficientnet, 0),
    "efficientnet-lite1": partial(_efficientnet, 1),
    "efficientnet-lite2": partial(_efficientnet, 2),
    "glyphs": _glyphs,
    "inception": _inception,
}
"""What makes each extractor, by its name."""
