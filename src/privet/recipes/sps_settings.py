"""What SPS and SPS+ decide before a private row is read, and what is chosen where nothing is said.

References:
    High performance differentially private fine-tuning using dataset distillation (SPS):
    Tables 9 to 11, section D.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.models import convolutions
from privet.recipes.choices import Choice, Chosen, Situation, chosen, decided
from privet.release import Cleaning, each_class
from privet.release.pseudo_classes import pseudo_classes
from privet.release.triangles import packed_size
from privet.synthesis import PixelOptimisation

_BATCH = 200  # images that are optimised together
_LEAST_SIZE, _MOST_SIZE = 8, 512
_LEAST_STEPS, _MOST_STEPS = 200, 1000
_CLASS_LAYERS = 3
_IN_PSEUDO = 5000  # images
STAGES = (1 / 16, 1 / 16, 1 / 32, 1 / 32, 1 / 32)
"""K_clip of each of up to five stages (SPS, Table 9)."""


@dataclass(frozen=True, kw_only=True)
class Sps:
    """The settings of SPS, decided before a private row is read; None leaves a choice to `chosen`.

    Args:
        layers: layers of the encoder whose global moments are matched; empty takes every
            convolution larger than 1×1.
        class_layers: how many of the last layers are matched by class too (L_C); None takes three.
        global_size: D_G, the size of global projections.
        class_size: D_C, the size of projections by class.
        clip_ratios: K_clip of each stage; their number is M, the number of stages.
        rescale: scale class parts by √S (3.2.4).
        pseudo_count: P, the number of pseudo-classes; 0 uses the classes themselves.
        per_pseudo: classes in a pseudo-class (N_c/p).
        count_share: the weight of a class count, as a share of the clip norm.
        class_weight: λ_C, the weight of class parts in the loss.
        cleaning: how released moments are cleaned; a jitter has a floor, since the less noise there
            is, the less of it the printed algorithm leaves, and the worse moments can be matched.
        iterations: optimisation steps of the first stage.
        later_iterations: optimisation steps of later stages, which start from the last stage's
            images.
        learning_rate: learning rate of the first stage.
        later_rate: learning rate of later stages.
        view: views of images while they are optimised; None mirrors those in colour.
        per_class: images of each class in a batch.
        decay: decay of the moving averages of synthetic moments.
        seed: the seed of projections, pseudo-classes and first images.
    """

    layers: tuple[str, ...] = ()
    class_layers: int | None = None
    global_size: int | None = None
    class_size: int | None = None
    clip_ratios: tuple[float, ...] | None = None
    rescale: bool = True
    pseudo_count: int | None = 0
    per_pseudo: int | None = None
    count_share: float = 0.08
    class_weight: float = 30.0
    cleaning: Cleaning = field(default_factory=lambda: Cleaning(least_jitter=0.1))
    iterations: int | None = None
    later_iterations: int | None = None
    learning_rate: float = 0.25
    later_rate: float = 0.1
    view: CropCurriculum | None = None
    per_class: int | None = None
    decay: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clip_ratios is not None and not all(ratio > 0 for ratio in self.clip_ratios or [0]):
            raise ConfigError("SPS needs a positive clip ratio for each stage.")
        sizes = (self.global_size, self.class_size, self.class_layers, self.per_class)
        if min((size for size in sizes if size is not None), default=1) < 1:
            raise ConfigError("SPS needs sizes, class layers and images per class from 1 upwards.")
        if not 0 <= self.class_weight < math.inf:
            raise ConfigError(f"class_weight is {self.class_weight:g}: give 0 or more.")

    def chosen(self, situation: Situation) -> Chosen[Sps]:
        """Fill in settings that are None, with a reason for each choice."""
        return chosen(self, situation, [_clip_ratio, _sizes, _steps, _view])

    def of(self, encoder: nn.Module) -> Sps:
        """Fill in the layers of an encoder, where none are named."""
        layers = self.layers or tuple(convolutions(encoder))
        wanted = self.class_layers
        if wanted is not None and wanted > len(layers):
            raise ConfigError(
                f"class_layers is {wanted} and the encoder has {len(layers)} layers: ask for fewer."
            )
        class_layers = min(_CLASS_LAYERS, len(layers)) if wanted is None else wanted
        return replace(self, layers=layers, class_layers=class_layers)

    @property
    def global_coordinates(self) -> int:
        """How many numbers the global parts have: L · D_G^layer."""
        return len(self.layers) * _per_layer(decided(self.global_size))

    @property
    def class_scale(self) -> float:
        """√S, which gives class parts as much room as global ones."""
        if not self.rescale:
            return 1.0
        ours = decided(self.class_layers) * _per_layer(decided(self.class_size))
        return math.sqrt(self.global_coordinates / ours)

    @property
    def clip_norms(self) -> list[float]:
        """The clip norm of each stage: K_clip √(2 L D_G^layer)."""
        longest = math.sqrt(2 * self.global_coordinates)
        return [ratio * longest for ratio in decided(self.clip_ratios)]

    def optimisation(self, stage: int) -> PixelOptimisation:
        """How a batch of a stage is optimised."""
        iterations = self.iterations if stage == 0 else self.later_iterations
        return PixelOptimisation(
            iterations=decided(iterations),
            learning_rate=self.learning_rate if stage == 0 else self.later_rate,
            view=decided(self.view),
        )

    def groups(self, num_classes: int) -> Tensor:
        """The groups of classes that moments are taken of: classes or pseudo-classes."""
        count = decided(self.pseudo_count)
        if not count:
            return each_class(num_classes)
        generator = torch.Generator().manual_seed(self.seed)
        return pseudo_classes(num_classes, count, decided(self.per_pseudo), generator)


@dataclass(frozen=True, kw_only=True)
class SpsPlus(Sps):
    """The settings of SPS+: pseudo-classes, and stages that clip around the last one's images."""

    pseudo_count: int | None = None

    def chosen(self, situation: Situation) -> Chosen[Sps]:
        """Fill in settings that are None, with a reason for each choice."""
        return chosen(self, situation, [_pseudo_classes, _stages, _sizes, _steps, _view])


def _per_layer(size: int) -> int:
    return size + packed_size(size)


def _clip_ratio(s: Sps, situation: Situation) -> Choice:
    """Choose the clip ratio by noise.

    Table 9 clips CIFAR-100, noisier by class, at half of what it clips CIFAR-10 at.
    """
    noise = situation.relative_noise
    ratio = 1 / 8 if noise < 1e-3 else 1 / 16
    return Choice({"clip_ratios": (ratio,)}, f"noise of {noise:.2g} for each image of a class")


def most_pseudo_classes(num_classes: int, per_pseudo: int, wanted: int) -> int:
    """The largest number of different groups, up to `wanted`, that hold classes equally often."""
    step = num_classes // math.gcd(num_classes, per_pseudo)
    return min(wanted, math.comb(num_classes, per_pseudo)) // step * step


def _pseudo_classes(s: Sps, situation: Situation) -> Choice:
    """Twice as many as classes, each of 5,000 images if a fifth of the classes has so many."""
    classes = situation.num_classes
    per_pseudo = s.per_pseudo or max(
        2, min(math.ceil(_IN_PSEUDO * classes / situation.size), classes // 5)
    )
    count = most_pseudo_classes(classes, per_pseudo, 2 * classes)
    if s.per_pseudo is not None:
        count = count or 2 * classes  # refused, with a reason, where groups are made
    elif count <= classes and s.pseudo_count is None:
        return Choice({"pseudo_count": 0}, "classes are too few to be grouped")
    about = float(f"{per_pseudo * situation.size / classes:.1e}")
    return Choice(
        {"pseudo_count": count, "per_pseudo": per_pseudo},
        f"a pseudo-class holds about {about:,.0f} images",
    )


def _stages(s: Sps, situation: Situation) -> Choice:
    """Choose the number of stages: two for 10 classes and four for 100, as in section 5."""
    count = max(2, min(round(2 * math.log10(situation.num_classes)), len(STAGES)))
    because = f"{count} stages for {situation.num_classes} classes"
    return Choice({"clip_ratios": STAGES[:count]}, because)


def _sizes(s: Sps, situation: Situation) -> Choice:
    """A power of the noise through the 16 columns of Table 10, each missed by 1.6 at most.

    Noise is that of one stage over the images of a class or pseudo-class. The more of these, the
    larger global parts are against class parts. A batch has too few positions for covariances of
    more numbers than an eighth of the pixels.
    """
    per_group = decided(s.per_pseudo) if s.pseudo_count else 1
    noise = situation.relative_noise * math.sqrt(len(decided(s.clip_ratios))) / per_group
    size = 115 * (1e-3 / noise) ** 0.72
    more = max(1.0, situation.num_classes / per_group / 10) ** 0.7
    height, width, _ = situation.image_shape
    most = min(_MOST_SIZE, height * width // 8)
    values = {
        "global_size": max(_LEAST_SIZE, min(round(size * more), most)),
        "class_size": max(_LEAST_SIZE, min(round(size), most)),
    }
    kind = "pseudo-class" if s.pseudo_count else "class"
    because = f"noise of {noise:.2g} for each image of a {kind} allows {size:,.0f}"
    if size > most:
        because += f", and {height}×{width} pixels {most}"
    return Choice(values, because)


def _steps(s: Sps, situation: Situation) -> Choice:
    """Choose the size of batches and the number of steps.

    Later stages take half as many steps (D.2.1).
    """
    side = max(situation.image_shape[:2])
    iterations = max(_LEAST_STEPS, min(10 * side, _MOST_STEPS))
    values = {"per_class": max(1, round(_BATCH / situation.num_classes)), "iterations": iterations}
    if len(decided(s.clip_ratios)) > 1:
        values["later_iterations"] = (s.iterations or iterations) // 2 or 1
    return Choice(values, f"batches of {_BATCH} images of {side} pixels a side")


def _view(s: Sps, situation: Situation) -> Choice:
    """Photographs stay what they are in a mirror, as CIFAR's do; digits and letters do not."""
    colour = situation.image_shape[2] == 3
    return Choice({"view": CropCurriculum(flip=colour)}, "grey images may be of letters or digits")
