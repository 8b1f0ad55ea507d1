"""How good a synthetic set is, by all measures at once, on images that are not private.

Every figure but CAS depends on the network that looks at images, so its name stands with them.

References:
    Ravuri and Vinyals, 2019 (CAS); Yoon et al., Diffusion Probabilistic Models Generalize when They
    Fail to Memorize, 2023 (what counts as a copy).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.errors import DataError
from privet.measure import (
    Accuracy,
    accuracy,
    density_and_coverage,
    frechet_distance,
    inception_score,
    kernel_distance,
    mean_discrepancy,
    median_distance,
    memorisation,
    nearest,
    precision_and_recall,
    predictions,
)
from privet.public import PublicRows
from privet.recipes.releases import OnStep
from privet.share import ClassifierTraining
from privet.share.panel import NETWORKS, Lesson, trained

Extractor = Callable[[Tensor], Tensor]
"""From images (N, C, H, W) in [-1, 1] to features (N, D)."""

LEAST, MOST = 6, 5000  # images of each set: they need neighbours, and are compared in pairs
_BATCH = 100
_COPY = 1 / 3
_CLOSEST, _NEIGHBOURS = 8, 5


@dataclass(frozen=True, kw_only=True)
class Closest:
    """A synthetic image, and those nearest to it among images that the generator saw.

    Args:
        synthetic: the row of the synthetic image.
        seen: rows of the images nearest to it, the nearest first.
        distances: distances to each of them, between features.
    """

    synthetic: int
    seen: tuple[int, ...]
    distances: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SetQuality:
    """Figures that say how good a synthetic set is.

    Args:
        extractor: the name of what looked at images.
        images: how many synthetic images were looked at.
        test_images: how many test images were looked at.
        frechet: the Fréchet distance to test images; FID if Inception looked.
        kid: the kernel distance to test images; KID if Inception looked.
        kid_std: standard deviation of the kernel distance over subsets.
        kid_subsets: how many subsets there were.
        kid_subset_size: images of each set in a subset.
        mmd: the squared MMD to test images with a Gaussian kernel.
        mmd_length_scale: length scale of that kernel: the median distance between test images.
        inception: the Inception score; None if the extractor tells no classes apart.
        precision: the share of synthetic images among test images.
        recall: the share of test images among synthetic ones.
        density: how densely synthetic images lie among test images; about 1 if both are alike.
        coverage: the share of test images with a synthetic one near them.
        cas: the test accuracy of a CNN that learned from synthetic images alone; None if there is
            one class only.
        cas_by_class: that accuracy for each class; None for one without test images.
        seen_images: how many images that the generator saw were looked at; None if it is not known
            what it saw.
        memorisation: the share of synthetic images nearer to images that the generator saw than to
            test images: 1/2 where nothing is remembered.
        copies: the share of synthetic images at most a third as far from the nearest image that the
            generator saw as from the second.
        closest: the synthetic images nearest to an image that the generator saw.
    """

    extractor: str
    images: int
    test_images: int
    frechet: float
    kid: float
    kid_std: float
    kid_subsets: int
    kid_subset_size: int
    mmd: float
    mmd_length_scale: float
    inception: float | None
    precision: float
    recall: float
    density: float
    coverage: float
    cas: float | None
    cas_by_class: tuple[float | None, ...]
    seen_images: int | None = None
    memorisation: float | None = None
    copies: float | None = None
    closest: tuple[Closest, ...] = ()

    @property
    def cas_worst_class(self) -> float | None:
        """The accuracy in the class that the CNN recognises least; None without CAS."""
        return min((share for share in self.cas_by_class if share is not None), default=None)

    @property
    def cas_worst(self) -> int | None:
        """The number of the class that the CNN recognises least; of several, the first."""
        share = self.cas_worst_class
        return None if share is None else self.cas_by_class.index(share)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**asdict(self), "cas_worst_class": self.cas_worst_class}


@dataclass(frozen=True, eq=False)
class _Looked:
    """Images that measures compare, as many as they can, by their rows and their features."""

    rows: Tensor
    features: Tensor


def set_quality(
    synthetic: PublicRows,
    test: PublicRows,
    *,
    extractor: Extractor,
    name: str,
    probabilities: Extractor | None = None,
    seen: PublicRows | None = None,
    taught_by: PublicRows | None = None,
    training: ClassifierTraining | None = None,
    num_classes: int | None = None,
    on_step: OnStep | None = None,
) -> SetQuality:
    """Measure a synthetic set by everything that `SetQuality` has.

    Args:
        synthetic: images and labels.
        test: real ones that nobody learned from, declared not to be private.
        extractor: from images to features; frozen, in evaluation mode.
        name: the extractor's name.
        probabilities: from images to class probabilities; None if the extractor tells no classes
            apart.
        seen: what the generator learned from; None if that is not public.
        taught_by: more test images, which the extractor learned from: they count for CAS alone;
            None if there are none.
        training: how the CNN is trained; None takes the defaults.
        num_classes: how many classes there are; None takes as many as labels say.
        on_step: called with the steps done and their total in the CNN's training.
    """
    if any(len(each) < LEAST for each in (synthetic, test, seen) if each is not None):
        raise DataError(f"A set of fewer than {LEAST} images has no quality to speak of.")
    made, real = _looked_at(extractor, synthetic), _looked_at(extractor, test)
    everything = test if taught_by is None else _together(test, taught_by)
    score = classification_accuracy_score(synthetic, everything, training, num_classes, on_step)
    shown = synthetic.inputs[made.rows]
    quality = SetQuality(
        extractor=name,
        images=len(made.rows),
        test_images=len(real.rows),
        **_compared(real.features, made.features),
        inception=None if probabilities is None else _inception(probabilities, shown),
        cas=None if score is None else score.overall,
        cas_by_class=() if score is None else score.by_class,
    )
    return quality if seen is None else _remembered(quality, made, real, extractor, seen)


def classification_accuracy_score(
    synthetic: PublicRows,
    test: PublicRows,
    training: ClassifierTraining | None = None,
    num_classes: int | None = None,
    on_step: OnStep | None = None,
) -> Accuracy | None:
    """Compute CAS: the accuracy of a CNN of synthetic images alone on real ones.

    The CNN is trained from scratch. None if there is one class only.
    """
    classes = num_classes or 1 + max(int(each.targets.max()) for each in (synthetic, test))
    if classes == 1:
        return None
    network = classifier(synthetic, classes, training, on_step)
    found = predictions(lambda images: network(to_float(images)), test.inputs)
    return accuracy(found, test.targets, classes)


def classifier(
    rows: PublicRows,
    num_classes: int,
    training: ClassifierTraining | None = None,
    on_step: OnStep | None = None,
) -> nn.Sequential:
    """Train a small CNN on these images alone; return its body, then its head."""
    lesson = Lesson(rows.inputs, rows.targets, num_classes)
    network = trained(NETWORKS["cnn"], lesson, training, on_step=on_step)
    assert isinstance(network, nn.Sequential)
    return network


def features(extractor: Extractor, images: Tensor) -> Tensor:
    """Compute features of images (N, H, W, C), in batches."""
    with torch.no_grad():
        batches = torch.split(images, _BATCH)
        return torch.cat([extractor(to_float(batch)).flatten(1).float() for batch in batches])


def _looked_at(extractor: Extractor, rows: PublicRows) -> _Looked:
    """Look at rows in random order, since sets lie sorted by class, or take classes in turn."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MOST]
    return _Looked(order, features(extractor, rows.inputs[order]))


def _compared(real: Tensor, made: Tensor) -> dict[str, Any]:
    """Compute all figures that rest on features alone, by their names."""
    kid, scale = kernel_distance(real, made), median_distance(real)
    precision, recall = precision_and_recall(real, made)
    density, coverage = density_and_coverage(real, made)
    return {
        "frechet": frechet_distance(real, made),
        "kid": kid.mean,
        "kid_std": kid.std,
        "kid_subsets": kid.subsets,
        "kid_subset_size": kid.size,
        "mmd": mean_discrepancy(real, made, scale),
        "mmd_length_scale": scale,
        "precision": precision,
        "recall": recall,
        "density": density,
        "coverage": coverage,
    }


def _together(first: PublicRows, second: PublicRows) -> PublicRows:
    return PublicRows(
        torch.cat([first.inputs, second.inputs]), torch.cat([first.targets, second.targets])
    )


def _inception(probabilities: Extractor, images: Tensor) -> float:
    """Compute the Inception score over all images at once.

    Parts of a small set do not have every class.
    """
    return inception_score(features(probabilities, images), splits=1)


def _remembered(
    quality: SetQuality, made: _Looked, real: _Looked, extractor: Extractor, rows: PublicRows
) -> SetQuality:
    """Add the figures that tell what the generator took over from images that it saw."""
    seen = _looked_at(extractor, rows)
    distances, which = nearest(made.features, seen.features, min(_NEIGHBOURS, len(seen.rows)))
    return replace(
        quality,
        seen_images=len(seen.rows),
        memorisation=memorisation(made.features, seen.features, real.features),
        copies=float((distances[:, 0] <= _COPY * distances[:, 1]).double().mean()),
        closest=tuple(
            Closest(
                synthetic=int(made.rows[number]),
                seen=tuple(seen.rows[which[number]].tolist()),
                distances=tuple(distances[number].tolist()),
            )
            for number in distances[:, 0].argsort()[:_CLOSEST].tolist()
        ),
    )
