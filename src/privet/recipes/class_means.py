"""The smallest useful release: private class means on public components, then a discriminant.

One noised sum gives the mean of every class in the space of a public principal component
analysis. With the covariance of public images, they make a linear discriminant classifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA

from privet.data import ImageSet
from privet.errors import ConfigError
from privet.hedge import GaussianSum, Hedge, Units, require_columns
from privet.privacy import (
    PLD,
    Budget,
    Certificate,
    GaussianRelease,
    Plan,
    certify,
    noise_multiplier,
)
from privet.release import ClassBlocks, class_means

Matrix = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Discriminant:
    """Class means, and what turns an image into their space."""

    mean: Matrix
    components: Matrix
    class_means: Matrix
    precision: Matrix
    image_shape: tuple[int, int, int]

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Classify images by the nearest class mean in Mahalanobis distance."""
        z = _project(_flat(images), self.mean, self.components)
        bias = np.einsum("cd,de,ce->c", self.class_means, self.precision, self.class_means) / 2
        return np.asarray((z @ self.precision @ self.class_means.T - bias).argmax(1))

    def pictures(self) -> NDArray[np.uint8]:
        """Return the class means as images."""
        flat = self.class_means @ self.components + self.mean
        pixels = np.clip(flat * 255, 0, 255).round().astype(np.uint8)
        pictures: NDArray[np.uint8] = pixels.reshape(-1, *self.image_shape)
        return pictures


@dataclass(frozen=True, kw_only=True)
class PrivateClassMeans:
    """A model that may be shared, and what it cost."""

    model: Discriminant
    certificate: Certificate


def private_class_means(
    hedge: Hedge, public: ImageSet, *, num_components: int = 48, count_share: float = 0.2
) -> PrivateClassMeans:
    """Spend the whole reservation on one release of class means.

    Args:
        hedge: images and labels, with an ε reserved.
        public: images that give components, covariance and clip norm.
        num_components: the dimension of a class mean.
        count_share: the weight of the count coordinate, as a share of the clip norm.
    """
    require_columns(hedge, "images", "labels")
    space = public_discriminant(public, num_components)
    clip_norm = _median_norm(public, space)
    mechanism = GaussianSum(clip_norm=clip_norm, noise_multiplier=_noise(hedge))
    hedge.reservation.fix(Plan((mechanism.event,)))

    blocks = ClassBlocks(
        features=_features(space),
        size=len(space.components),
        num_classes=len(space.class_means),
        count_scale=count_share * clip_norm,
    )
    means, _ = class_means(hedge.release(blocks, mechanism), blocks.count_scale)
    model = Discriminant(**{**vars(space), "class_means": means.numpy()})
    certificate = certify(
        hedge.reservation, public=("public images of the same kind: components, covariance, clip",)
    )
    return PrivateClassMeans(model=model, certificate=certificate)


def public_discriminant(public: ImageSet, num_components: int) -> Discriminant:
    """Fit the same classifier to public images alone.

    It is the baseline, and gives the space for the release.
    """
    if public.labels is None or len(public) <= num_components:
        raise ConfigError(
            f"{num_components} components need more than as many labelled public images."
        )
    if not public.class_counts().all():
        raise ConfigError("Every class needs at least one public image.")
    flat = _flat(np.asarray(public.images[:]))
    pca = PCA(num_components, svd_solver="full").fit(flat)
    z = pca.transform(flat)
    means = np.stack([z[public.labels == label].mean(0) for label in range(public.num_classes)])
    covariance, _ = ledoit_wolf(z - means[public.labels], assume_centered=True)
    return Discriminant(
        mean=pca.mean_.astype(np.float32),
        components=pca.components_.astype(np.float32),
        class_means=means.astype(np.float32),
        precision=np.linalg.inv(covariance).astype(np.float32),
        image_shape=public.image_shape,
    )


def _noise(hedge: Hedge) -> float:
    record, ledger = hedge.reservation.record, hedge.reservation.ledger
    return noise_multiplier(
        lambda sigma: Plan.of(GaussianRelease(noise_multiplier=sigma)),
        Budget(epsilon=record.epsilon, delta=ledger.budget.delta),
        ledger.relation,
        PLD(),
    )


def _features(space: Discriminant) -> Callable[[Units], torch.Tensor]:
    mean, components = torch.from_numpy(space.mean), torch.from_numpy(space.components)

    def features(units: Units) -> torch.Tensor:
        flat = units["images"].flatten(1).float() / 255
        return (flat - mean.to(flat)) @ components.to(flat).T

    return features


def _median_norm(public: ImageSet, space: Discriminant) -> float:
    z = _project(_flat(np.asarray(public.images[:])), space.mean, space.components)
    return math.sqrt(float(np.median(np.square(z).sum(1))))


def _flat(images: NDArray[np.uint8]) -> Matrix:
    return (images.reshape(len(images), -1) / np.float32(255)).astype(np.float32)


def _project(flat: Matrix, mean: Matrix, components: Matrix) -> Matrix:
    return np.asarray((flat - mean) @ components.T)
