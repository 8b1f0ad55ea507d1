"""Public images from public images: EDM, with or without discriminator guidance (IDS, §4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.keys import keyed, seeded
from privet.models.noisy_classifier import NoisyClassifier, NoisyDiscriminator
from privet.public import DiffusionTraining, Edm, Heun, PublicRows
from privet.public.edm import Guidance
from privet.public.guidance import (
    ClassifierTask,
    DiscriminatorGuidance,
    DiscriminatorTask,
    real_and_synthetic,
)
from privet.recipes.public_diffusion import Progress, PublicDiffusion, Teaching, image_shape_of
from privet.recipes.releases import Drawn, Memory, NoMemory

_GUIDING = 1_000_000  # numbers of images that guides learn from: far from those that are drawn


@dataclass(frozen=True, kw_only=True)
class PublicEdm(PublicDiffusion):
    """Settings of an EDM of public images, with or without discriminator guidance.

    Args:
        sampler: how images are drawn.
        guidance: w_d, the weight of a discriminator; 0 trains none.
        guiding: how many images are drawn for the discriminator to learn from.
        guide_iterations: training steps of the classifier, and of the discriminator.
    """

    sampler: Heun = field(default_factory=Heun)
    guidance: float = 0.0
    guiding: int = 2000
    guide_iterations: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.guidance < math.inf:
            raise ConfigError(f"guidance is {self.guidance:g}; give 0 or more.")
        if min(self.guiding, self.guide_iterations) < 1:
            raise ConfigError("guiding and guide_iterations must be 1 or more.")

    @classmethod
    def as_published(cls) -> PublicEdm:
        """Appendix C.2 of IDS: EDM's own settings for CIFAR-10, for several GPUs."""
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
    """Train an EDM on public images, and return what draws as many others as one likes.

    Args:
        public: images, each of whose classes has some.
        num_classes: the number of classes of the labels; 1 for images without labels.
        settings: every setting; None takes the defaults.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        progress: gives a listener for the steps of each training, by its name; None tells nobody.
        device: where networks lie; None is the CPU.
    """
    s, shape = settings or PublicEdm(), image_shape_of(public, num_classes)
    teach = Teaching(seed=s.seed, memory=memory or NoMemory(), progress=progress)
    model = Edm(s.first_weights(num_classes, shape)).to(device)
    teach("diffusion", model, public, s.training)

    def drawn(guidance: Guidance | None) -> Drawn:
        def sample(labels: Tensor, numbers: Sequence[int]) -> Tensor:
            return s.sampler(model, labels, shape, numbers, seed=s.seed, guidance=guidance)

        return s.drawn(num_classes, sample)

    unguided = drawn(None)
    if not s.guidance:
        return unguided
    return drawn(_guide(s, public, num_classes, unguided, teach, device))


def _guide(
    s: PublicEdm,
    public: PublicRows,
    num_classes: int,
    unguided: Drawn,
    teach: Teaching,
    device: torch.device | None,
) -> Guidance:
    """Train a discriminator between public images and those that are drawn without it."""
    lessons = DiffusionTraining(iterations=s.guide_iterations, augment=None)
    first = _GUIDING // s.at_once
    batches = [unguided.batch(first + each) for each in range(-(-s.guiding // s.at_once))]
    synthetic = PublicRows(
        torch.cat([torch.from_numpy(images) for images, _ in batches]),
        torch.cat([torch.from_numpy(labels) for _, labels in batches]),
    )
    with seeded(keyed(s.seed)):
        classifier = NoisyClassifier(num_classes, public.inputs.shape[3]).to(device)
    teach("classifier", ClassifierTask(classifier), public, lessons)
    with seeded(keyed(s.seed)):
        discriminator = NoisyDiscriminator(classifier).to(device)
    both = real_and_synthetic(public, synthetic, num_classes)
    teach("discriminator", DiscriminatorTask(discriminator), both, lessons)
    return DiscriminatorGuidance(discriminator, weight=s.guidance)
