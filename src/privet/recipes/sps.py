"""SPS and SPS+: moments of projected activations, noised, and pixels optimised to match them.

References:
    High performance differentially private fine-tuning using dataset distillation (paper 002):
    Algorithms 1 to 8, Tables 9 to 11, section D.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.models import FeatureMaps, convolutions
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
    planned_sums,
    released,
    told,
)
from privet.release import (
    Cleaning,
    Embedding,
    GaussianTarget,
    Lens,
    Moments,
    Part,
    Projection,
    Seen,
    each_class,
    everyone,
    gaussian_targets,
)
from privet.release.pseudo_classes import pseudo_classes
from privet.release.triangles import packed_size
from privet.synthesis import GaussianMatching, InTurn, PixelOptimisation, optimised
from privet.synthesis.generating import to_pixels
from privet.synthesis.keys import keyed


@dataclass(frozen=True, kw_only=True)
class Sps:
    """Everything that is decided before a private row is read.

    Args:
        layers: of the encoder, whose global moments are matched; every 3×3 convolution if none.
        class_layers: how many of the last ones are matched by class too (L_C).
        global_size: D_G.
        class_size: D_C.
        clip_ratios: K_clip of each stage; their number is M.
        rescale: scale class parts by √S (3.2.4).
        pseudo_count: P; 0 uses the classes themselves.
        per_pseudo: classes in a pseudo-class (N_c/p).
        count_share: of the clip norm that a class count weighs.
        class_weight: λ_C.
        cleaning: of released moments.
        iterations: of the first stage.
        later_iterations: of stages after it, which start from the last stage's images.
        learning_rate: of the first stage.
        later_rate: of stages after it.
        view: of images while they are optimised.
        per_class: images of each class in a batch.
        decay: of the averages of synthetic moments.
        seed: of projections, pseudo-classes and starts.
    """

    layers: tuple[str, ...] = ()
    class_layers: int = 3
    global_size: int = 192
    class_size: int = 192
    clip_ratios: tuple[float, ...] = (1 / 8,)
    rescale: bool = True
    pseudo_count: int = 0
    per_pseudo: int = 2
    count_share: float = 0.08
    class_weight: float = 30.0
    cleaning: Cleaning = field(default_factory=Cleaning)
    iterations: int = 1000
    later_iterations: int = 500
    learning_rate: float = 0.25
    later_rate: float = 0.1
    view: CropCurriculum = field(default_factory=CropCurriculum)
    per_class: int = 20
    decay: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.clip_ratios or min(self.clip_ratios) <= 0:
            raise ConfigError("SPS needs a positive clip ratio for each stage.")
        if min(self.global_size, self.class_size, self.class_layers, self.per_class) < 1:
            raise ConfigError("SPS needs sizes, class layers and images per class from 1 upwards.")
        if not 0 <= self.class_weight < math.inf:
            raise ConfigError(f"class_weight is {self.class_weight:g}: give 0 or more.")

    def of(self, encoder: nn.Module) -> Sps:
        """With the layers of an encoder, where none are named."""
        layers = self.layers or tuple(convolutions(encoder))
        if self.class_layers > len(layers):
            raise ConfigError(
                f"class_layers is {self.class_layers} and the encoder has {len(layers)} layers: "
                "ask for fewer."
            )
        return replace(self, layers=layers)

    @property
    def global_coordinates(self) -> int:
        """L · D_G^layer."""
        return len(self.layers) * (self.global_size + packed_size(self.global_size))

    @property
    def class_scale(self) -> float:
        """√S, which gives class parts as much room as global ones."""
        if not self.rescale:
            return 1.0
        per_layer = self.class_size + packed_size(self.class_size)
        return math.sqrt(self.global_coordinates / (self.class_layers * per_layer))

    @property
    def clip_norms(self) -> list[float]:
        """K_clip √(2 L D_G^layer) of each stage."""
        return [ratio * math.sqrt(2 * self.global_coordinates) for ratio in self.clip_ratios]

    def optimisation(self, stage: int) -> PixelOptimisation:
        """How a batch of a stage is optimised."""
        if stage == 0:
            return PixelOptimisation(
                iterations=self.iterations, learning_rate=self.learning_rate, view=self.view
            )
        return PixelOptimisation(
            iterations=self.later_iterations, learning_rate=self.later_rate, view=self.view
        )

    def groups(self, num_classes: int) -> Tensor:
        """Classes or pseudo-classes."""
        if not self.pseudo_count:
            return each_class(num_classes)
        generator = torch.Generator().manual_seed(self.seed)
        return pseudo_classes(num_classes, self.pseudo_count, self.per_pseudo, generator)


@dataclass(frozen=True, kw_only=True)
class SpsPlus(Sps):
    """With pseudo-classes, and stages that clip around the last one's images."""

    clip_ratios: tuple[float, ...] = (1 / 16, 1 / 16)
    pseudo_count: int = 20


def sps(
    hedge: Hedge,
    *,
    encoders: Sequence[nn.Module],
    image_shape: tuple[int, int, int],
    num_classes: int,
    count: int,
    settings: Sps | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Summarise, privatise, synthesise: stage after stage, all matched together in the last.

    Args:
        hedge: images and labels, with an ε reserved for all stages together.
        encoders: trained on public images, with smooth activations; stages take them in turn.
        image_shape: height, width and channels.
        num_classes: declared.
        count: how many images the next stage's centre is computed from.
        settings: of the method.
        memory: what was done before.
        on_step: told of the optimisation of each batch.
    """
    s, memory = (settings or Sps()).of(encoders[0]), memory or NoMemory()
    mechanisms = planned_sums(hedge, s.clip_norms)
    batch_size = s.per_class * num_classes
    run = _Run(s, num_classes, image_shape, batch_size, memory, on_step)
    for stage, mechanism in enumerate(mechanisms):
        encoder = encoders[stage % len(encoders)]
        centre = None if stage == 0 else run.images(stage - 1, math.ceil(count / batch_size))
        embedding = run.embedding(encoder, stage, mechanism.clip_norm, centre)
        noisy = released(hedge, embedding, mechanism, memory, f"release-{stage}")
        targets = gaussian_targets(embedding, noisy, s.cleaning)
        run.stages.append((embedding, targets, mechanism.clip_norm))

    def batch(number: int) -> tuple[Images, Labels]:
        images = run.batch(len(mechanisms) - 1, number)
        return to_pixels(images), balanced(batch_size, num_classes, number).numpy()

    certificate = certify(hedge.reservation, public=("the encoders",))
    return Synthetic(batch=batch, batch_size=batch_size, certificate=certificate)


class _Run:
    """Stages that were released, and batches of images for them."""

    def __init__(
        self,
        settings: Sps,
        num_classes: int,
        image_shape: tuple[int, int, int],
        batch_size: int,
        memory: Memory,
        on_step: OnStep | None,
    ) -> None:
        self.settings, self.num_classes, self.image_shape = settings, num_classes, image_shape
        self.batch_size, self.memory, self.on_step = batch_size, memory, on_step
        self.stages: list[tuple[Embedding, dict[str, GaussianTarget], float]] = []

    def embedding(
        self, encoder: nn.Module, stage: int, clip_norm: float, centre: tuple[Tensor, Tensor] | None
    ) -> Embedding:
        """Of one stage, around the moments of the last stage's images."""
        plain = sps_embedding(
            encoder, self.settings, self.image_shape, self.num_classes, stage, clip_norm
        )
        if centre is None:
            return plain
        images, labels = centre
        with torch.no_grad():
            found, _ = plain.moments(images, labels)
        return sps_embedding(
            encoder, self.settings, self.image_shape, self.num_classes, stage, clip_norm, found
        )

    def images(self, stage: int, batches: int) -> tuple[Tensor, Tensor]:
        """A stage's whole set."""
        images = torch.cat([self.batch(stage, number) for number in range(batches)])
        labels = [balanced(self.batch_size, self.num_classes, each) for each in range(batches)]
        return images, torch.cat(labels)

    def batch(self, stage: int, number: int) -> Tensor:
        """One batch, which depends on the releases, the seed and its number alone."""

        def make() -> Tensors:
            return {"images": self._optimised(stage, number)}

        return self.memory.once(f"stage-{stage}-batch-{number:05d}", make)["images"]

    def _optimised(self, stage: int, number: int) -> Tensor:
        s = self.settings
        generator = keyed(s.seed, stage, number)
        height, width, channels = self.image_shape
        config = s.optimisation(stage)
        if stage:
            start = self.batch(stage - 1, number)
        else:
            start = torch.randn(self.batch_size, channels, height, width, generator=generator)
        losses = [
            GaussianMatching(
                embedding,
                targets,
                clip_norm=clip_norm,
                weights={name: s.class_weight for name in targets if name.endswith("class")},
                decay=s.decay,
            )
            for embedding, targets, clip_norm in self.stages[: stage + 1]
        ]
        labels = balanced(self.batch_size, self.num_classes, number)
        tell = told(self.on_step, config.iterations)
        return optimised(start, labels, InTurn(losses), config, generator=generator, on_step=tell)


def sps_embedding(
    encoder: nn.Module,
    s: Sps,
    image_shape: tuple[int, int, int],
    num_classes: int,
    stage: int,
    clip_norm: float,
    centre: dict[str, Moments] | None = None,
) -> Embedding:
    """Positions of every layer, projected at random: global moments, and those by class."""
    maps = FeatureMaps(encoder, list(s.layers))
    height, width, channels = image_shape
    widths = {
        name: each.shape[1] for name, each in maps(torch.zeros(1, channels, height, width)).items()
    }
    generator = torch.Generator().manual_seed(s.seed + stage)
    lenses, parts = {}, []
    for kind, layers, size in (
        ("all", s.layers, s.global_size),
        ("class", s.layers[-s.class_layers :], s.class_size),
    ):
        scale = s.class_scale if kind == "class" else 1.0
        groups = s.groups(num_classes) if kind == "class" else everyone(num_classes)
        for layer in layers:
            name = f"{layer}-{kind}".replace(".", "_")
            projection = Projection.random(widths[layer], size, generator)
            lenses[name] = Lens(layer=layer, grid=0, projection=projection)
            parts.append(
                Part(
                    name=name,
                    source=name,
                    size=size,
                    groups=groups,
                    mean_weight=scale,
                    second_weight=scale,
                    centre=None if centre is None else centre[name],
                )
            )
    return Embedding(
        features=Seen(maps, lenses),
        parts=tuple(parts),
        num_classes=num_classes,
        count_weight=s.count_share * clip_norm,
    )
