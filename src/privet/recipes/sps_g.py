"""SPS-G: one release of spatial moments, then a generator that matches them.

The statistics are those of SPS, taken of whole coarse maps instead of single positions; the images
are a generator's, which makes thousands in a second and does not stop at the number it was trained
with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.privacy import certify
from privet.recipes.models import ImageShape
from privet.recipes.releases import (
    Images,
    Labels,
    Memory,
    NoMemory,
    OnStep,
    Release,
    Synthetic,
    balanced,
    generator_for,
    hedge_noise,
    planned,
    released,
    told,
)
from privet.recipes.spatial import SpatialPart, landmarks, spatial_embedding
from privet.release import Cleaning, Embedding, MomentDiscriminant, gaussian_targets
from privet.release.lenses import IMAGE
from privet.synthesis import (
    GaussianMatching,
    GeneratorTraining,
    agreed,
    sampled,
    train_generator,
)


@dataclass(frozen=True, kw_only=True)
class SpsG:
    """Everything that is decided before a private row is read.

    Args:
        early: principal components of an early map, on a coarse grid; 0 leaves a part out, and
            none takes as many as the noise allows.
        middle: of a map half-way.
        deep: of the encoder's last map.
        pixels: of the image itself, at half its side.
        everywhere: of an early map's positions, for all classes together.
        mean_share: of a part's squared norm that goes to means; none weighs all numbers alike.
        stretch: of public features before they are squashed.
        clip_norm: R; class parts of public images have a mean squared norm of 1 each.
        count_share: of the clip norm that a class count weighs.
        cleaning: of the released moments.
        decay: of the averages of synthetic moments.
        training: of the generator.
        latent: length of its latent vectors.
        widths: of its layers.
        agreement: keep images that released moments assign to their label, and no others.
        batch_size: images that are sampled at once.
        seed: of the generator's first weights.
    """

    early: int | None = None
    middle: int | None = None
    deep: int | None = None
    pixels: int | None = None
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
    widths: tuple[int, int, int, int] = (96, 64, 32, 16)
    agreement: bool = True
    batch_size: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.early, self.middle, self.deep, self.pixels)
        if min(size or 0 for size in (*sizes, self.everywhere)) < 0 or not any(
            size is None or size for size in sizes
        ):
            raise ConfigError("SPS-G needs sizes from 0 upwards, one of a class part above 0.")
        if self.mean_share is not None and not 0 < self.mean_share < 1:
            raise ConfigError(f"mean_share is {self.mean_share:g}: give a share between 0 and 1.")
        if not 0 < self.stretch < math.inf:
            raise ConfigError(f"stretch is {self.stretch:g}: give a number above 0.")

    def fitted(self, relative_noise: float, image_shape: ImageShape) -> SpsG:
        """With sizes where none were given: more numbers the less each of them is noised.

        Chosen on public letters: a fifth root through 58 components at the relative noise of ε = 1
        and 6,000 images in a class. Grey images do without the last map.

        Args:
            relative_noise: the noise multiplier over the number of images in a class.
            image_shape: height, width and channels.
        """
        size = round(58 * (6.2e-4 / relative_noise) ** 0.2)
        size = max(8, min(size, 192, image_shape[0] * image_shape[1] // 8))
        deep = size if image_shape[2] == 3 else 0
        return replace(
            self,
            early=size if self.early is None else self.early,
            middle=size if self.middle is None else self.middle,
            deep=deep if self.deep is None else self.deep,
            pixels=size if self.pixels is None else self.pixels,
        )

    def parts(self, encoder: nn.Module, image_side: int) -> list[SpatialPart]:
        """Of the embedding."""
        early, middle, deep = landmarks(encoder)
        parts = [
            SpatialPart(layer=early, size=self.early or 0),
            SpatialPart(layer=middle, size=self.middle or 0),
            SpatialPart(layer=deep, size=self.deep or 0),
            SpatialPart(layer=IMAGE, size=self.pixels or 0, grid=image_side // 2),
            SpatialPart(layer=early, size=self.everywhere, grid=0, per_class=False, share=0.09),
        ]
        return [
            replace(part, mean_share=self.mean_share, stretch=self.stretch)
            for part in parts
            if part.size
        ]


def sps_g(
    hedge: Hedge,
    *,
    encoder: nn.Module,
    public: Tensor,
    num_classes: int,
    settings: SpsG | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Spend the reservation on one release; everything after it is free.

    Args:
        hedge: images and labels, with an ε reserved.
        encoder: trained on public images.
        public: images (N, H, W, C), uint8, that give components and weights.
        num_classes: declared.
        settings: of the method.
        memory: what was done before.
        on_step: told of the generator's training.
    """
    s, memory = settings or SpsG(), memory or NoMemory()
    _, height, width, channels = public.shape
    s = s.fitted(hedge_noise(hedge, num_classes), (height, width, channels))
    embedding = sps_g_embedding(s, encoder, public, num_classes, memory)
    [mechanism] = planned(hedge, [Release(embedding, s.clip_norm)])
    noisy = released(hedge, embedding, mechanism, memory, "release")

    targets = gaussian_targets(embedding, noisy, s.cleaning)
    weights = {part.name: 1 / part.num_groups for part in embedding.parts}
    matching = GaussianMatching(
        embedding, targets, clip_norm=s.clip_norm, weights=weights, decay=s.decay
    )
    generator = generator_for(s, num_classes, (height, width, channels))

    def train() -> dict[str, Tensor]:
        train_generator(
            generator,
            matching,
            s.training,
            latent=s.latent,
            num_classes=num_classes,
            on_step=told(on_step, s.training.iterations),
        )
        return dict(generator.state_dict())

    generator.load_state_dict(memory.once("generator", train))

    judge = MomentDiscriminant.quadratic(embedding, targets)

    def batch(number: int) -> tuple[Images, Labels]:
        labels = balanced(s.batch_size, num_classes, number)
        if not s.agreement:
            return sampled(generator, labels, latent=s.latent, seed=number), labels.numpy()
        return agreed(generator, labels, judge, latent=s.latent, seed=number), labels.numpy()

    return Synthetic(
        batch=batch,
        batch_size=s.batch_size,
        certificate=certify(hedge.reservation, public=("the encoder", "images for components")),
    )


def sps_g_embedding(
    s: SpsG, encoder: nn.Module, public: Tensor, num_classes: int, memory: Memory | None = None
) -> Embedding:
    """Fitted to public images."""
    parts, count_weight = s.parts(encoder, public.shape[1]), s.count_share * s.clip_norm
    return spatial_embedding(encoder, public, parts, num_classes, count_weight, memory)
