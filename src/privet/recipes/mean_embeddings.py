"""DP-MERF and DP-MEPF: a mean embedding of each class, noised once, and a generator to match it.

References:
    Harder et al. 2021 (DP-MERF: random Fourier features); Harder et al. 2023 (DP-MEPF, paper 001:
    perceptual features, moving averages, early stopping by a second, noisier release).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from privet.hedge import Hedge, NoisySum
from privet.models import FeatureMaps, convolutions
from privet.privacy import certify
from privet.recipes.releases import (
    Images,
    Labels,
    Memory,
    NoMemory,
    OnStep,
    Release,
    Synthetic,
    Tensors,
    balanced,
    generator_for,
    planned,
    released,
)
from privet.release import Embedding, Part, class_totals, each_class, released_moments
from privet.release.fourier import FourierFeatures
from privet.release.perceptual import PerceptualFeatures, pooled
from privet.synthesis import GeneratorTraining, MeanMatching, sampled, train_generator


@dataclass(frozen=True, kw_only=True)
class MeanEmbedding:
    """What both systems decide before a private row is read.

    Args:
        training: of the generator.
        average_rate: of the moving average of the gap between embeddings.
        count_share: of the clip norm that a class count weighs.
        latent: length of the generator's latent vectors.
        widths: of its layers.
        batch_size: images that are sampled at once.
        seed: of features and generator.
    """

    training: GeneratorTraining = field(default_factory=GeneratorTraining)
    average_rate: float = 1e-2
    count_share: float = 0.08
    latent: int = 32
    widths: tuple[int, int, int, int] = (96, 64, 32, 16)
    batch_size: int = 1000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DpMerf(MeanEmbedding):
    """Random Fourier features of pixels.

    Args:
        size: D.
        length_scale: of the Gaussian kernel, in pixels from 0 to 1.
    """

    size: int = 10_000
    length_scale: float = 10.0


@dataclass(frozen=True, kw_only=True)
class DpMepf(MeanEmbedding):
    """Perceptual features, of unit norm.

    Args:
        second: match squares too (φ₂).
        stopping: keep the weights that a second release likes best.
        stopping_noise: that release's noise multiplier against the first's.
        checks: how often the generator is looked at.
    """

    second: bool = True
    stopping: bool = False
    stopping_noise: float = 10.0
    checks: int = 20


def dp_merf(
    hedge: Hedge,
    *,
    image_shape: tuple[int, int, int],
    num_classes: int,
    settings: DpMerf | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Match mean embeddings of a Gaussian kernel; nothing public is needed."""
    s = settings or DpMerf()
    [release] = dp_merf_releases(s, image_shape, num_classes)
    run = _Run(hedge, s, image_shape, num_classes, memory or NoMemory(), on_step)
    return run.synthetic([release], public=())


def dp_mepf(
    hedge: Hedge,
    *,
    encoder: nn.Module,
    image_shape: tuple[int, int, int],
    num_classes: int,
    settings: DpMepf | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Match mean embeddings of an encoder's activations.

    Args:
        hedge: images and labels, with an ε reserved.
        encoder: trained on public images; convolutions larger than 1×1 are looked at.
        image_shape: height, width and channels.
        num_classes: declared; 1 for unlabelled images.
        settings: of the method.
        memory: what was done before.
        on_step: told of the generator's training.
    """
    s = settings or DpMepf()
    releases = dp_mepf_releases(s, encoder, image_shape, num_classes)
    run = _Run(hedge, s, image_shape, num_classes, memory or NoMemory(), on_step)
    return run.synthetic(releases, public=("the encoder",))


def dp_merf_releases(
    s: DpMerf, image_shape: tuple[int, int, int], num_classes: int
) -> list[Release]:
    """Fourier features and counts of each class."""
    generator = torch.Generator().manual_seed(s.seed)
    features = FourierFeatures.random(image_shape, s.size, s.length_scale, generator)
    return [_release(features, {"fourier": s.size}, num_classes, s.count_share)]


def dp_mepf_releases(
    s: DpMepf, encoder: nn.Module, image_shape: tuple[int, int, int], num_classes: int
) -> list[Release]:
    """Features to match and, for stopping, noisier ones of the last layer."""
    maps = FeatureMaps(encoder, convolutions(encoder))
    features = PerceptualFeatures(maps, second=s.second)
    kinds = ("first", "second") if s.second else ("first",)
    sizes = dict.fromkeys(kinds, features.size(image_shape))
    found = [_release(features, sizes, num_classes, s.count_share)]
    if s.stopping:
        last = pooled(maps, maps.layers[-1])
        sizes = dict.fromkeys(("first", "second"), last.size(image_shape))
        stop = _release(last, sizes, num_classes, s.count_share)
        found.append(replace(stop, noise_ratio=s.stopping_noise))
    return found


class _Run:
    """One release, or two, and a generator."""

    def __init__(
        self,
        hedge: Hedge,
        settings: MeanEmbedding,
        image_shape: tuple[int, int, int],
        num_classes: int,
        memory: Memory,
        on_step: OnStep | None,
    ) -> None:
        self.hedge, self.settings, self.memory = hedge, settings, memory
        self.num_classes, self.on_step = num_classes, on_step
        self.generator = generator_for(settings, num_classes, image_shape)

    def synthetic(self, releases: list[Release], public: tuple[str, ...]) -> Synthetic:
        """Release, train, and be ready to sample."""
        mechanisms = planned(self.hedge, releases)
        noisy = [
            released(self.hedge, each.embedding, mechanism, self.memory, name)
            for name, each, mechanism in zip(
                ("release", "stopping"), releases, mechanisms, strict=False
            )
        ]
        stop = _Stopping(releases[1].embedding, noisy[1]) if len(noisy) > 1 else None
        embedding, first = releases[0].embedding, noisy[0]
        self.generator.load_state_dict(
            self.memory.once("generator", lambda: self._trained(embedding, first, stop))
        )
        return Synthetic(
            batch=self._batch,
            batch_size=self.settings.batch_size,
            certificate=certify(self.hedge.reservation, public=public),
        )

    def _trained(self, embedding: Embedding, noisy: NoisySum, stop: _Stopping | None) -> Tensors:
        s = self.settings
        totals = class_totals(embedding, noisy)
        moments = released_moments(embedding, noisy)
        matching = MeanMatching(embedding, moments, totals / totals.sum(), s.average_rate)
        every = 0 if not isinstance(s, DpMepf) else math.ceil(s.training.iterations / s.checks)

        def tell(step: int, _: float) -> None:
            if stop is not None and (step % every == 0 or step == s.training.iterations):
                stop.look(self.generator, s.latent, self.num_classes)
            if self.on_step is not None:
                self.on_step(step, s.training.iterations)

        train_generator(
            self.generator,
            matching,
            s.training,
            latent=s.latent,
            num_classes=self.num_classes,
            on_step=tell,
        )
        return dict(self.generator.state_dict()) if stop is None else stop.best

    def _batch(self, number: int) -> tuple[Images, Labels]:
        labels = balanced(self.settings.batch_size, self.num_classes, number)
        images = sampled(self.generator, labels, latent=self.settings.latent, seed=number)
        return images, labels.numpy()


class _Stopping:
    """The weights whose images lie nearest to a release that training does not see."""

    def __init__(self, embedding: Embedding, noisy: NoisySum) -> None:
        totals = class_totals(embedding, noisy)
        self._embedding, self._shares = embedding, (totals / totals.sum())[:, None]
        self._target = released_moments(embedding, noisy)
        self.least, self.best = math.inf, Tensors()

    def look(self, generator: nn.Module, latent: int, num_classes: int) -> None:
        """Remember the weights if they are the best so far."""
        labels = balanced(100 * num_classes, num_classes)
        images = torch.from_numpy(sampled(generator, labels, latent=latent, seed=0))
        with torch.no_grad():
            found, _ = self._embedding.moments(images, labels)
        distance = sum(
            float((self._shares * (found[name].mean - each.mean)).square().sum())
            for name, each in self._target.items()
        )
        if distance < self.least:
            self.least = distance
            self.best = {name: each.clone() for name, each in generator.state_dict().items()}
        generator.train()


def _release(
    features: FourierFeatures | PerceptualFeatures,
    sizes: Mapping[str, int],
    num_classes: int,
    count_share: float,
) -> Release:
    """Unit vectors, each in the block of its class, and counts.

    The clip norm is what such a vector has anyway: nothing is clipped but what rounding adds.
    """
    groups, length = each_class(num_classes), math.sqrt(len(sizes))
    embedding = Embedding(
        features=features,
        parts=tuple(
            Part(name=name, source=name, size=size, groups=groups) for name, size in sizes.items()
        ),
        num_classes=num_classes,
        count_weight=count_share * length,
    )
    return Release(embedding, length * math.sqrt(1 + count_share**2) * (1 + 1e-4))
