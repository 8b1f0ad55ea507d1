"""SPS-G: one release of spatial moments, then a generator that matches them.

The statistics are those of SPS, taken of whole coarse maps instead of single positions; the images
are a generator's, which makes thousands in a second and does not stop at the number it was trained
with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.hedge import Hedge, NoisySum
from privet.models import branches, joined
from privet.privacy import certify
from privet.recipes.choices import Choice, Chosen, Situation, chosen
from privet.recipes.generators import generator_choice, generator_for
from privet.recipes.model import ImageShape
from privet.recipes.releases import (
    Images,
    Kept,
    Labels,
    Matched,
    Memory,
    NoMemory,
    OnStep,
    Release,
    Synthetic,
    planned,
    public_encoders,
    released,
    require_labels,
    soft_labels,
    told,
)
from privet.recipes.spatial import SpatialPart, all_landmarks, spatial_embedding
from privet.recipes.turns import even, in_turn
from privet.release import Cleaning, Embedding, MomentDiscriminant, class_shares, gaussian_targets
from privet.release.lenses import IMAGE
from privet.release.placing import moved, placed
from privet.synthesis import (
    GaussianMatching,
    GeneratorTraining,
    PixelOptimisation,
    agreed,
    refined,
    sampled,
    train_generator,
)


@dataclass(frozen=True, kw_only=True)
class SpsG:
    """The settings of SPS-G: everything that is decided before a private row is read.

    Args:
        early: principal components of an early map, on a coarse grid; 0 leaves the part out, and
            None takes as many as the noise allows, here and in the next four.
        middle: principal components of a map half-way.
        deep: principal components of the encoder's last map.
        pixels: principal components of the image itself, at half its side.
        shared: principal components of the map half-way too, and more of them: means of each class
            and one covariance for all, which tell classes apart that differ in few directions;
            fewer where there are not four public images for each, or not two features.
        everywhere: principal components of an early map's positions, for all classes together.
        mean_share: the share of a part's squared norm that goes to means; None weighs all numbers
            alike.
        stretch: the standard deviation of public features before they are squashed.
        clip_norm: R; class parts of public images have a mean squared norm of 1 each.
        count_share: the weight of a class count, as a share of the clip norm.
        cleaning: how released moments are cleaned.
        decay: decay of the moving averages of synthetic moments.
        training: how the generator is trained.
        latent: length of the generator's latent vectors.
        generator: upsampling, residual or code; None takes the residual one where it fits.
        widths: widths of the layers of an upsampling generator.
        width: width of the last block of a residual generator.
        agreement: keep images that released moments assign to their label, and no others.
        refine: steps that the pixels of each batch are optimised further; 0 takes them as they are.
        refine_rate: the learning rate of these steps.
        batch_size: images that are sampled at once.
        seed: the seed of the generator's first weights.
    """

    early: int | None = None
    middle: int | None = None
    deep: int | None = None
    pixels: int | None = None
    shared: int | None = None
    everywhere: int = 32
    mean_share: float | None = 0.3
    stretch: float = 1.0
    clip_norm: float = 1.0
    count_share: float = 0.08
    cleaning: Cleaning = field(
        default_factory=lambda: Cleaning(jitter=0.1, least_jitter=0.1, shrinkage=None)
    )
    decay: float = 0.8
    training: GeneratorTraining = field(default_factory=GeneratorTraining)
    latent: int = 32
    generator: str | None = None
    widths: tuple[int, int, int, int] = (96, 64, 32, 16)
    width: int = 32
    agreement: bool = True
    refine: int = 0
    refine_rate: float = 0.02
    batch_size: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.early, self.middle, self.deep, self.pixels, self.shared)
        if min(size or 0 for size in (*sizes, self.everywhere)) < 0 or not any(
            size is None or size for size in sizes
        ):
            raise ConfigError("SPS-G needs sizes from 0 upwards, one of a class part above 0.")
        if self.mean_share is not None and not 0 < self.mean_share < 1:
            raise ConfigError(f"mean_share is {self.mean_share:g}: give a share between 0 and 1.")
        if not 0 < self.stretch < math.inf:
            raise ConfigError(f"stretch is {self.stretch:g}: give a number above 0.")
        if self.refine < 0 or not 0 < self.refine_rate < math.inf:
            raise ConfigError("refine is 0 or more, and refine_rate above 0: give others.")

    @property
    def refinement(self) -> PixelOptimisation | None:
        """How the pixels of sampled images are optimised further; None if they are not."""
        if not self.refine:
            return None
        return PixelOptimisation(
            iterations=self.refine,
            learning_rate=self.refine_rate,
            view=CropCurriculum(smallest=1.0, flip=False, stretch=1.0),
        )

    @property
    def judging(self) -> Cleaning:
        """How moments are cleaned that judge images; chosen on public letters and photos.

        What classes have in common tells them apart better than what noise, and a generator that
        smooths, leave of each.
        """
        return replace(
            self.cleaning,
            jitter=5 * self.cleaning.jitter,
            least_jitter=0.3 * self.cleaning.least_jitter,
            even_jitter=True,
            least_shrinkage=0.5,
        )

    def fitted(self, relative_noise: float, image_shape: ImageShape) -> SpsG:
        """Fill in sizes that are None: the less noise each number gets, the more numbers.

        Chosen on public letters and grey photos: a fifth root through 58 components at the relative
        noise of ε = 1 and 6,000 images in a class, and a third one through 256 of the shared kind.
        Grey images do without the last map.

        Args:
            relative_noise: the noise multiplier over the number of images in a class.
            image_shape: height, width and channels.
        """
        height, width, channels = image_shape
        size = round(58 * (6.2e-4 / relative_noise) ** 0.2)
        size = max(8, min(size, 192, height * width // 8))
        shared = round(256 * (6.2e-4 / relative_noise) ** (1 / 3))
        shared = max(8, min(shared, 480, height * width))
        deep = size if channels == 3 else 0
        return replace(
            self,
            early=size if self.early is None else self.early,
            middle=size if self.middle is None else self.middle,
            deep=deep if self.deep is None else self.deep,
            pixels=size if self.pixels is None else self.pixels,
            shared=shared if self.shared is None else self.shared,
        )

    def chosen(self, situation: Situation) -> Chosen[SpsG]:
        """Fill in settings that are None, with a reason for each choice."""
        return chosen(self, situation, [_sizes, generator_choice])

    def parts(self, encoder: nn.Module, image_side: int) -> list[SpatialPart]:
        """List the parts of the embedding, for an encoder and square images of this side."""
        found = all_landmarks(encoder)
        share = 1 / len(found)  # several encoders weigh as much as one
        parts = [
            SpatialPart(layer=layer, size=size or 0, share=share)
            for early, middle, deep in found
            for layer, size in ((early, self.early), (middle, self.middle), (deep, self.deep))
        ]
        shared = [
            SpatialPart(
                layer=middle, size=self.shared or 0, share=share, shared=True, mean_share=0.5
            )
            for _, middle, _ in found
        ]
        parts.append(SpatialPart(layer=IMAGE, size=self.pixels or 0, grid=image_side // 2))
        parts.extend(
            SpatialPart(
                layer=early, size=self.everywhere, grid=0, per_class=False, share=0.09 * share
            )
            for early, *_ in found
        )
        parts = [replace(part, mean_share=self.mean_share) for part in parts] + shared
        return [replace(part, stretch=self.stretch) for part in parts if part.size]


def _sizes(s: SpsG, situation: Situation) -> Choice:
    noise, names = situation.relative_noise, ("early", "middle", "deep", "pixels", "shared")
    fitted = s.fitted(noise, situation.image_shape)
    return Choice(
        {name: getattr(fitted, name) for name in names},
        f"noise of {noise:.2g} for each image of a class",
    )


def sps_g(
    hedge: Hedge,
    *,
    encoder: nn.Module | Sequence[nn.Module],
    public: Tensor,
    num_classes: int,
    settings: SpsG | None = None,
    proportional: bool = False,
    treated_as_public: Sequence[str] | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Make images by SPS-G: spend the reservation on one release; all after it is free.

    Args:
        hedge: images and labels, with an ε reserved.
        encoder: trained on public images; several are looked through together.
        public: images (N, H, W, C), uint8, that give components and weights.
        num_classes: declared; 1 for unlabelled images.
        settings: the method's settings; None takes the defaults.
        proportional: make classes as large as released counts say, and not equally large.
        treated_as_public: what the certificate lists as public; None lists encoders that nothing
            was paid for, and images for components.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
    """
    require_labels(hedge, num_classes)
    s, memory = settings or SpsG(), memory or NoMemory()
    _, height, width, channels = public.shape
    shape = (height, width, channels)
    s = s.chosen(Situation.behind(hedge, num_classes, shape)).settings
    network = joined(encoder)
    embedding = sps_g_embedding(s, network, public, num_classes, memory)
    embedding = placed(embedding, hedge.device)
    [mechanism] = planned(hedge, [Release(embedding, s.clip_norm)])
    noisy = released(hedge, embedding, mechanism, memory, "release")
    made = sps_g_matched(
        noisy,
        embedding,
        s,
        image_shape=shape,
        proportional=proportional,
        memory=memory,
        on_step=on_step,
        device=hedge.device,
    )
    if treated_as_public is None:
        encoders = public_encoders(hedge, "the encoder", len(branches(network)))
        treated_as_public = (*encoders, "images for components")
    return made.certified(certify(hedge.reservation, public=treated_as_public))


def sps_g_matched(
    noisy: NoisySum,
    embedding: Embedding,
    s: SpsG,
    *,
    image_shape: ImageShape,
    proportional: bool = False,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> Matched:
    """Train a generator to match a noised sum, of one hedge or of several: free to repeat.

    Args:
        noisy: the noised sum that left the hedge.
        embedding: what the sum is of, on the device.
        s: settings in which `SpsG.chosen` left nothing open.
        image_shape: height, width and channels.
        proportional: make classes as large as released counts say, and not equally large.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
        device: where the generator is trained.
    """
    memory, device, num_classes = memory or NoMemory(), torch.device(device), embedding.num_classes
    targets = moved(gaussian_targets(embedding, noisy, s.cleaning), device)
    weights = {name: 1 / len(each.covariance) for name, each in targets.items()}

    def matching(decay: float) -> GaussianMatching:
        return GaussianMatching(
            embedding, targets, clip_norm=s.clip_norm, weights=weights, decay=decay
        )

    generator = generator_for(s, num_classes, image_shape).to(device)

    def train() -> dict[str, Tensor]:
        train_generator(
            generator,
            matching(s.decay),
            s.training,
            latent=s.latent,
            num_classes=num_classes,
            on_step=told(on_step, s.training.iterations),
            checkpoint=Kept(memory, "generator"),
        )
        return dict(generator.state_dict())

    generator.load_state_dict(memory.once("generator", train))

    judge = None
    if num_classes > 1:
        judged = moved(gaussian_targets(embedding, noisy, s.judging), device)
        judge = MomentDiscriminant.quadratic(embedding, judged)
    shares = class_shares(embedding, noisy)
    turns = shares if proportional else even(num_classes)

    def batch(number: int) -> tuple[Images, Labels]:
        labels = in_turn(turns, number * s.batch_size, s.batch_size).labels
        if judge is None or not s.agreement:
            images = sampled(generator, labels, latent=s.latent, seed=number)
        else:
            images = agreed(generator, labels, judge, latent=s.latent, seed=number)
        if s.refinement is not None:
            there = labels.to(device)
            images = refined(images, there, matching(0.0), s.refinement, seed=number)
        return images, labels.numpy()

    return Matched(
        batch=batch,
        batch_size=s.batch_size,
        shares=shares,
        soft=None if judge is None else soft_labels(judge),
    )


def sps_g_embedding(
    s: SpsG, encoder: nn.Module, public: Tensor, num_classes: int, memory: Memory | None = None
) -> Embedding:
    """Fit the embedding of SPS-G to public images."""
    parts, count_weight = s.parts(encoder, public.shape[1]), s.count_share * s.clip_norm
    return spatial_embedding(encoder, public, parts, num_classes, count_weight, memory)
