"""DP-MERF and DP-MEPF: a mean embedding of each class, noised once, and a generator to match it.

References:
    Harder et al. 2021 (DP-MERF: random Fourier features); Harder et al. 2023 (DP-MEPF, paper 001:
    perceptual features, moving averages, early stopping by a second, noisier release).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from privet.hedge import GaussianSum, Hedge, NoisySum
from privet.models import FeatureMaps, UpsamplingGenerator, convolutions
from privet.privacy import certify
from privet.recipes.releases import (
    Images,
    Labels,
    Memory,
    NoMemory,
    OnStep,
    Synthetic,
    Tensors,
    balanced,
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
    generator = torch.Generator().manual_seed(s.seed)
    features = FourierFeatures.random(image_shape, s.size, s.length_scale, generator)
    embedding = _embedding(features, {"fourier": s.size}, num_classes, s.count_share)
    [mechanism] = planned(hedge, [_clip_norm(1, s.count_share)])
    run = _Run(hedge, s, image_shape, num_classes, memory or NoMemory(), on_step)
    return run.synthetic(embedding, mechanism, None, public=())


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
    maps = FeatureMaps(encoder, convolutions(encoder))
    features = PerceptualFeatures(maps, second=s.second)
    kinds = ("first", "second") if s.second else ("first",)
    size = features.size(image_shape)
    embedding = _embedding(features, dict.fromkeys(kinds, size), num_classes, s.count_share)
    clip_norms, ratios, stop = [_clip_norm(len(kinds), s.count_share)], [1.0], None
    if s.stopping:
        last = pooled(maps, maps.layers[-1])
        width = last.size(image_shape)
        stop = _embedding(last, {"first": width, "second": width}, num_classes, s.count_share)
        clip_norms.append(_clip_norm(2, s.count_share))
        ratios.append(s.stopping_noise)
    mechanism, *others = planned(hedge, clip_norms, ratios)
    run = _Run(hedge, s, image_shape, num_classes, memory or NoMemory(), on_step)
    stopping = None if stop is None else (stop, others[0])
    return run.synthetic(embedding, mechanism, stopping, public=("the encoder",))


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
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.generator = UpsamplingGenerator(
                num_classes,
                image_shape[2],
                image_size=image_shape[0],
                latent=settings.latent,
                widths=settings.widths,
            ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def synthetic(
        self,
        embedding: Embedding,
        mechanism: GaussianSum,
        stopping: tuple[Embedding, GaussianSum] | None,
        public: tuple[str, ...],
    ) -> Synthetic:
        """Release, train, and be ready to sample."""
        noisy = released(self.hedge, embedding, mechanism, self.memory, "release")
        stop = None
        if stopping is not None:
            last = released(self.hedge, *stopping, self.memory, "stopping")
            stop = _Stopping(stopping[0], last)
        self.generator.load_state_dict(
            self.memory.once("generator", lambda: self._trained(embedding, noisy, stop))
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


def _embedding(
    features: FourierFeatures | PerceptualFeatures,
    sizes: Mapping[str, int],
    num_classes: int,
    count_share: float,
) -> Embedding:
    """Unit vectors, each in the block of its class, and counts."""
    groups = each_class(num_classes)
    return Embedding(
        features=features,
        parts=tuple(
            Part(name=name, source=name, size=size, groups=groups) for name, size in sizes.items()
        ),
        num_classes=num_classes,
        count_weight=count_share * math.sqrt(len(sizes)),
    )


def _clip_norm(unit_vectors: int, count_share: float) -> float:
    """Of what has this norm anyway: nothing is clipped but what rounding adds."""
    return math.sqrt(unit_vectors * (1 + count_share**2)) * (1 + 1e-4)
