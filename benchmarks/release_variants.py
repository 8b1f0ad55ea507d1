"""What only ablations need: D3S, sharpness-aware training, a generator on a DP-trained encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.augment import to_float, to_pixels
from privet.data import ImageSet
from privet.keys import keyed
from privet.models import ConvEncoder
from privet.optim import Sharpness
from privet.recipes.choices import Situation, decided
from privet.recipes.mean_embeddings import dp_mepf
from privet.recipes.mean_settings import DpMepf
from privet.recipes.position_moments import sps_embedding
from privet.recipes.private_encoders import PrivatelyTrained, private_encoder
from privet.recipes.releases import NoMemory, Synthetic, balanced, planned_sums, released
from privet.recipes.sps_settings import Sps
from privet.release import gaussian_targets
from privet.share import ClassifierTraining, train_classifier
from privet.synthesis import GaussianMatching, Matching, optimised
from release_making import Terms

_GSAM = Sharpness(kind="gsam", radius=0.05, alpha=0.04)


def teacher_of(private: ImageSet, config: ClassifierTraining) -> nn.Sequential:
    """A classifier of real images, not private, as D3S needs one."""
    torch.manual_seed(0)
    body = ConvEncoder(private.image_shape[2])
    network = nn.Sequential(body, nn.Linear(body.num_features, private.num_classes))
    images = torch.from_numpy(np.asarray(private.images[:]))
    train_classifier(network, images, torch.from_numpy(np.asarray(private.labels)), config)
    network[0] = body.folded()
    return network.requires_grad_(False)


def soft_labels(teacher: nn.Module, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What a teacher thinks of images."""
    with torch.no_grad():
        batches = torch.split(torch.from_numpy(images), 500)
        found = torch.cat([teacher(to_float(batch)).softmax(1) for batch in batches])
    return np.asarray(found.numpy(), np.float32)


def d3s(
    private: ImageSet, teacher: nn.Sequential, s: Sps, terms: Terms, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Global moments by KL, classes by the teacher's cross-entropy (SPS, section 3.1)."""
    classes, shape = private.num_classes, private.image_shape
    with terms.hedge(private) as hedge:
        s = s.chosen(Situation.behind(hedge, classes, shape)).settings.of(teacher[0])
        [mechanism] = planned_sums(hedge, s.clip_norms)
        embedding = sps_embedding(teacher[0], s, shape, classes, 0, mechanism.clip_norm)
        noisy = released(hedge, embedding, mechanism, NoMemory(), "release")
    targets = gaussian_targets(embedding, noisy, s.cleaning)
    everywhere = {name: each for name, each in targets.items() if name.endswith("all")}
    size, height, width = decided(s.per_class) * classes, *shape[:2]
    labels, found = balanced(size, classes), []
    for number in range(-(-count // size)):
        matching = GaussianMatching(
            embedding, everywhere, clip_norm=mechanism.clip_norm, decay=s.decay
        )
        generator = keyed(s.seed, 0, number)
        start = torch.randn(size, shape[2], height, width, generator=generator)
        loss = _Taught(matching, teacher)
        found.append(optimised(start, labels, loss, s.optimisation(0), generator=generator))
    images = np.concatenate([to_pixels(each) for each in found])[:count]
    return images, labels.repeat(len(found)).numpy()[:count]


class _Taught:
    """A distance, and a teacher's cross-entropy beside it."""

    def __init__(self, matching: Matching, teacher: nn.Module) -> None:
        self._matching, self._teacher = matching, teacher

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """Their sum."""
        return self._matching(images, labels) + F.cross_entropy(self._teacher(images), labels)


def train_sharpness_aware(
    network: nn.Module, images: Tensor, labels: Tensor, config: ClassifierTraining
) -> None:
    """`train_classifier` with GSAM, as in SPS, D.3, around AdamW."""
    train_classifier(network, images, labels, replace(config, sharpness=_GSAM))


def with_private_encoder(
    private: ImageSet, system: DpMepf, share: float, terms: Terms
) -> Synthetic:
    """DP-MEPF on an encoder that a share of ε taught, or on an untrained one (appendix F)."""
    shape, classes = private.image_shape, private.num_classes
    with terms.hedge(private) as hedge:
        if share:
            lessons = PrivatelyTrained(share=share, epochs=4)
            encoder = private_encoder(hedge, lessons, image_shape=shape, num_classes=classes)
        else:
            encoder = PrivatelyTrained().outline(shape, None)
        return dp_mepf(
            hedge, encoder=encoder, image_shape=shape, num_classes=classes, settings=system
        )
