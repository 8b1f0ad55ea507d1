"""DP-MERF and DP-MEPF: a mean embedding of each class, noised once, and a generator to match it.

References:
    Harder et al. 2021 (DP-MERF: random Fourier features); Harder et al. 2023 (DP-MEPF:
    perceptual features, moving averages, early stopping by a second, noisier release).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from privet.hedge import Hedge, NoisySum
from privet.models import FeatureMaps, branches, convolutions, joined
from privet.optim.states import under
from privet.privacy import certify
from privet.recipes.choices import Situation, decided
from privet.recipes.generators import generator_for
from privet.recipes.mean_settings import DpMepf, DpMerf, MeanEmbedding
from privet.recipes.releases import (
    Images,
    Kept,
    Labels,
    Matched,
    Memory,
    NoMemory,
    OnStep,
    Release,
    SumOf,
    Synthetic,
    Tensors,
    balanced,
    planned,
    public_encoders,
    released,
    require_labels,
    told,
)
from privet.recipes.turns import even, in_turn
from privet.release import (
    Embedding,
    Part,
    class_shares,
    class_totals,
    each_class,
    released_moments,
)
from privet.release.fourier import FourierFeatures, median_pixel_distance
from privet.release.perceptual import PerceptualFeatures, pooled
from privet.release.placing import moved, placed
from privet.synthesis import MeanMatching, sampled, train_generator

RELEASE_NAMES = ("release", "stopping")
"""Names under which releases are remembered."""


def dp_merf(
    hedge: Hedge,
    *,
    image_shape: tuple[int, int, int],
    num_classes: int,
    settings: DpMerf | None = None,
    public: Tensor | None = None,
    proportional: bool = False,
    treated_as_public: Sequence[str] | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Make images by DP-MERF: match mean embeddings of a Gaussian kernel; nothing public is needed.

    Args:
        hedge: images and labels, with an ε reserved.
        image_shape: height, width and channels.
        num_classes: declared; 1 for unlabelled images.
        settings: the method's settings; None takes the defaults.
        public: images (N, H, W, C), uint8, whose distances tell the length scale; None if there are
            none.
        proportional: make classes as large as released counts say, and not equally large.
        treated_as_public: what the certificate lists as public; None lists images for a length
            scale, if they were used for one.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
    """
    s, situation = settings or DpMerf(), Situation.behind(hedge, num_classes, image_shape)
    measured = public is not None and s.length_scale is None
    if public is not None and measured:
        situation = replace(situation, median_distance=median_pixel_distance(public))
    s = s.chosen(situation).settings
    releases = dp_merf_releases(s, image_shape, num_classes)
    run = _Run(s, image_shape, num_classes, memory or NoMemory(), on_step, hedge.device)
    made = _matched_behind(hedge, run, releases, proportional)
    if treated_as_public is None:
        treated_as_public = ("images for a length scale",) if measured else ()
    return made.certified(certify(hedge.reservation, public=treated_as_public))


def dp_mepf(
    hedge: Hedge,
    *,
    encoder: nn.Module | Sequence[nn.Module],
    image_shape: tuple[int, int, int],
    num_classes: int,
    settings: DpMepf | None = None,
    proportional: bool = False,
    treated_as_public: Sequence[str] | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Make images by DP-MEPF: match mean embeddings of an encoder's activations.

    Args:
        hedge: images and labels, with an ε reserved.
        encoder: trained on public images; convolutions larger than 1×1 are looked at, those of
            several encoders together.
        image_shape: height, width and channels.
        num_classes: declared; 1 for unlabelled images.
        settings: the method's settings; None takes the defaults.
        proportional: make classes as large as released counts say, and not equally large.
        treated_as_public: what the certificate lists as public; None lists encoders that nothing
            was paid for.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
    """
    s = (settings or DpMepf()).chosen(Situation.behind(hedge, num_classes, image_shape)).settings
    network = joined(encoder)
    releases = dp_mepf_releases(s, network, image_shape, num_classes)
    run = _Run(s, image_shape, num_classes, memory or NoMemory(), on_step, hedge.device)
    made = _matched_behind(hedge, run, releases, proportional)
    if treated_as_public is None:
        treated_as_public = public_encoders(hedge, "the encoder", len(branches(network)))
    return made.certified(certify(hedge.reservation, public=treated_as_public))


def mean_matched(
    sum_of: SumOf,
    s: MeanEmbedding,
    releases: list[Release],
    *,
    image_shape: tuple[int, int, int],
    num_classes: int,
    proportional: bool = False,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> Matched:
    """Train a generator to match noised sums, of one hedge or of several.

    Args:
        sum_of: gives the noised sum of each release, through its embedding.
        s: settings in which `chosen` left nothing open.
        releases: what to match and, where there is a second, what to stop by.
        image_shape: height, width and channels.
        num_classes: declared.
        proportional: make classes as large as released counts say, and not equally large.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
        device: where the generator is trained.
    """
    place = torch.device(device)
    run = _Run(s, image_shape, num_classes, memory or NoMemory(), on_step, place)
    return run.matched(sum_of, releases, proportional)


def _matched_behind(
    hedge: Hedge, run: _Run, releases: list[Release], proportional: bool
) -> Matched:
    """Plan the releases, make them behind the hedge, and match them."""
    require_labels(hedge, run.num_classes)
    mechanisms = planned(hedge, releases)

    def sum_of(embedding: Embedding, number: int) -> NoisySum:
        return released(hedge, embedding, mechanisms[number], run.memory, RELEASE_NAMES[number])

    return run.matched(sum_of, releases, proportional)


def dp_merf_releases(
    s: DpMerf, image_shape: tuple[int, int, int], num_classes: int
) -> list[Release]:
    """List the one release of DP-MERF: Fourier features and counts of each class."""
    generator = torch.Generator().manual_seed(s.seed)
    features = FourierFeatures.random(image_shape, s.size, decided(s.length_scale), generator)
    return [_release(features, {"fourier": s.size}, num_classes, s.count_share)]


def dp_mepf_releases(
    s: DpMepf, encoder: nn.Module, image_shape: tuple[int, int, int], num_classes: int
) -> list[Release]:
    """List the releases of DP-MEPF: features to match and, for stopping, noisier ones.

    Those for stopping are of the last layer.
    """
    maps = FeatureMaps(encoder, s.layers or convolutions(encoder))
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
    """A generator, and its training to match one release or two."""

    def __init__(
        self,
        settings: MeanEmbedding,
        image_shape: tuple[int, int, int],
        num_classes: int,
        memory: Memory,
        on_step: OnStep | None,
        device: torch.device,
    ) -> None:
        self.settings, self.memory, self.device = settings, memory, device
        self.num_classes, self.on_step = num_classes, on_step
        self.generator = generator_for(settings, num_classes, image_shape).to(device)

    def matched(self, sum_of: SumOf, releases: list[Release], proportional: bool) -> Matched:
        """Train the generator, and return what samples images from it."""
        embeddings = [placed(each.embedding, self.device) for each in releases]
        noisy = [sum_of(embedding, number) for number, embedding in enumerate(embeddings)]
        stop = None
        if isinstance(self.settings, DpMepf) and len(noisy) > 1:
            stop = _Stopping(embeddings[1], noisy[1], self.settings.checks, self.device)
        embedding, first = embeddings[0], noisy[0]
        self.generator.load_state_dict(
            self.memory.once("generator", lambda: self._trained(embedding, first, stop))
        )
        shares = class_shares(embedding, first)
        turns = shares if proportional else even(self.num_classes)
        return Matched(
            batch=lambda number: self._batch(number, turns),
            batch_size=self.settings.batch_size,
            shares=shares,
        )

    def _trained(self, embedding: Embedding, noisy: NoisySum, stop: _Stopping | None) -> Tensors:
        s, training = self.settings, decided(self.settings.training)
        totals = class_totals(embedding, noisy).to(self.device)
        moments = moved(released_moments(embedding, noisy), self.device)
        matching = MeanMatching(embedding, moments, totals / totals.sum(), s.average_rate)
        passed = told(self.on_step, training.iterations)

        def tell(step: int, loss: float) -> None:
            if stop is not None and stop.is_due(step, training.iterations):
                stop.look(self.generator, s.latent, self.num_classes)
            passed(step, loss)

        train_generator(
            self.generator,
            matching,
            training,
            latent=s.latent,
            num_classes=self.num_classes,
            on_step=tell,
            checkpoint=Kept(self.memory, "generator"),
            beside=() if stop is None else (stop,),
        )
        return dict(self.generator.state_dict()) if stop is None else stop.best

    def _batch(self, number: int, turns: Tensor) -> tuple[Images, Labels]:
        size = self.settings.batch_size
        labels = in_turn(turns, number * size, size).labels
        images = sampled(self.generator, labels, latent=self.settings.latent, seed=number)
        return images, labels.numpy()


class _Stopping:
    """The weights whose images lie nearest to a release that training does not see."""

    def __init__(
        self, embedding: Embedding, noisy: NoisySum, checks: int, device: torch.device
    ) -> None:
        totals = class_totals(embedding, noisy).to(device)
        self._embedding, self._shares = embedding, (totals / totals.sum())[:, None]
        self._target, self._device = moved(released_moments(embedding, noisy), device), device
        self._checks, self.least, self.best = checks, math.inf, Tensors()

    def is_due(self, step: int, total: int) -> bool:
        """Whether to look after this step: after so many in between, and after the last."""
        return step % math.ceil(total / self._checks) == 0 or step == total

    def look(self, generator: nn.Module, latent: int, num_classes: int) -> None:
        """Remember the weights if they are the best so far."""
        labels = balanced(100 * num_classes, num_classes).to(self._device)
        images = torch.from_numpy(sampled(generator, labels, latent=latent, seed=0))
        images = images.to(self._device)
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

    def state(self) -> Tensors:
        """The best weights so far and their distance, to be kept."""
        found = {f"best/{name}": each for name, each in self.best.items()}
        return found | {"least": torch.tensor(self.least, dtype=torch.float64)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that was kept."""
        self.least, self.best = float(state["least"]), under("best/", state)


def _release(
    features: FourierFeatures | PerceptualFeatures,
    sizes: Mapping[str, int],
    num_classes: int,
    count_share: float,
) -> Release:
    """Make a release of unit vectors, each in the block of its class, and of class counts.

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
