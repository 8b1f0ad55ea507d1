"""Public images from public images: EDM, with or without discriminator guidance (paper 000, §4).

No private row is touched, and nothing is private: a diffusion model of a few images repeats some of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from privet.augment import to_pixels
from privet.errors import ConfigError, DataError
from privet.keys import keyed
from privet.models import DenoisingUNet
from privet.models.noisy_classifier import NoisyClassifier, NoisyDiscriminator
from privet.public import DiffusionTraining, Edm, Heun, PublicRows, train_at_noise_levels
from privet.public.diffusion import Task
from privet.public.edm import Guidance
from privet.public.guidance import (
    ClassifierTask,
    DiscriminatorGuidance,
    DiscriminatorTask,
    real_and_synthetic,
)
from privet.public.warm_up import seeded
from privet.recipes.releases import (
    Drawn,
    Images,
    Kept,
    Labels,
    Memory,
    NoMemory,
    OnStep,
    balanced,
    told,
)

Progress = Callable[[str], OnStep]
"""By the name of what is trained: who is told of its steps."""

_GUIDING = 1_000_000  # numbers of images that guides learn from: far from those that are drawn


@dataclass(frozen=True, kw_only=True)
class PublicEdm:
    """A diffusion model of public images, of a size for a CPU.

    Args:
        widths: channels of the U-Net at each resolution.
        blocks: residual ones at each resolution.
        dropout: of residual blocks.
        training: of the U-Net.
        sampler: how images are drawn.
        guidance: w_d, the weight of a discriminator; 0 trains none.
        guiding: images that are drawn for it to learn from.
        guide_iterations: of the training of the classifier, and of the discriminator.
        at_once: images that are drawn together.
        seed: of first weights and of images.
    """

    widths: tuple[int, ...] = (24, 48, 64)
    blocks: int = 1
    dropout: float = 0.1
    training: DiffusionTraining = field(default_factory=DiffusionTraining)
    sampler: Heun = field(default_factory=Heun)
    guidance: float = 0.0
    guiding: int = 2000
    guide_iterations: int = 1000
    at_once: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.guidance < math.inf:
            raise ConfigError(f"guidance is {self.guidance:g}; give 0 or more.")
        if min(self.guiding, self.guide_iterations, self.at_once, self.blocks) < 1:
            raise ConfigError("guiding, guide_iterations, at_once and blocks must be 1 or more.")

    @classmethod
    def as_published(cls) -> PublicEdm:
        """Appendix C.2 of paper 000: EDM's own settings for CIFAR-10, for several GPUs."""
        return cls(
            widths=(128, 256, 256),
            blocks=4,
            dropout=0.13,
            training=DiffusionTraining(
                iterations=200_000_000 // 512, batch_size=512, warm_up=10 / 200, half_life=500_000
            ),
            at_once=500,
        )


def edm(
    public: PublicRows,
    *,
    num_classes: int,
    settings: PublicEdm | None = None,
    memory: Memory | None = None,
    progress: Progress | None = None,
    device: torch.device | None = None,
) -> Drawn:
    """Learn from public images; draw as many others as one likes.

    Args:
        public: images, each of whose classes has some.
        num_classes: of the labels; 1 for images without.
        settings: of everything.
        memory: what was done before.
        progress: told of trainings.
        device: where networks lie; the CPU if none is given.
    """
    s, memory = settings or PublicEdm(), memory or NoMemory()
    _check(public, num_classes)
    _, height, width, channels = public.inputs.shape
    shape = (height, width, channels)

    def trained(name: str, task: Task, rows: PublicRows, config: DiffusionTraining) -> None:
        def train() -> dict[str, Tensor]:
            train_at_noise_levels(
                task,
                rows,
                config,
                seed=s.seed,
                on_step=told(None if progress is None else progress(name), config.iterations),
                checkpoint=Kept(memory, name),
            )
            return dict(task.network.state_dict())

        task.network.load_state_dict(memory.once(name, train))
        task.network.eval()

    model = Edm(first_weights(s, num_classes, shape)).to(device)
    trained("diffusion", model, public, s.training)

    def drawn(number: int, guidance: Guidance | None) -> tuple[Images, Labels]:
        labels = balanced(s.at_once, num_classes, number)
        numbers = range(number * s.at_once, (number + 1) * s.at_once)
        images = s.sampler(model, labels, shape, numbers, seed=s.seed, guidance=guidance)
        return to_pixels(images), labels.numpy()

    guidance = None
    if s.guidance:
        guides = DiffusionTraining(iterations=s.guide_iterations, augment=None)
        first = _GUIDING // s.at_once
        batches = [drawn(first + each, None) for each in range(-(-s.guiding // s.at_once))]
        synthetic = PublicRows(
            torch.cat([torch.from_numpy(images) for images, _ in batches]),
            torch.cat([torch.from_numpy(labels) for _, labels in batches]),
        )
        with seeded(keyed(s.seed)):
            classifier = NoisyClassifier(num_classes, channels).to(device)
        trained("classifier", ClassifierTask(classifier), public, guides)
        with seeded(keyed(s.seed)):
            discriminator = NoisyDiscriminator(classifier).to(device)
        both = real_and_synthetic(public, synthetic, num_classes)
        trained("discriminator", DiscriminatorTask(discriminator), both, guides)
        guidance = DiscriminatorGuidance(discriminator, weight=s.guidance)
    return Drawn(batch=lambda number: drawn(number, guidance), batch_size=s.at_once)


def first_weights(s: PublicEdm, num_classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """The U-Net before it has learned anything."""
    height, width, channels = image_shape
    with seeded(keyed(s.seed)):
        return DenoisingUNet(
            num_classes,
            channels,
            image_size=(height, width),
            widths=s.widths,
            blocks=s.blocks,
            dropout=s.dropout,
            augmentations=0 if s.training.augment is None else s.training.augment.size,
        )


def _check(public: PublicRows, num_classes: int) -> None:
    if public.inputs.ndim != 4 or public.inputs.dtype != torch.uint8:
        raise DataError("A diffusion model is made of images, and the public rows are features.")
    counts = torch.bincount(public.targets, minlength=num_classes)
    if len(counts) > num_classes:
        raise DataError(f"Public labels go beyond the {num_classes} classes.")
    if not counts.all():
        missing = int((counts == 0).nonzero()[0])
        raise DataError(
            f"No public image is of class {missing}, of which images would be drawn: give some, or "
            "declare fewer classes."
        )
