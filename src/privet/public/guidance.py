"""Discriminator guidance: pull a sampler away from what gives its images away.

A discriminator tells public images from synthetic ones at every noise level. Its logit is the
logarithm of the ratio of their densities, whose slope is what the model's score lacks.

References:
    Kim et al., Refining Generative Process with Discriminator Guidance, 2023. IDS, section
    4.3, trains both networks on public images and on images drawn from them alone, and takes larger
    weights, for diversity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.errors import ConfigError, DataError
from privet.models.noisy_classifier import NoisyClassifier, NoisyDiscriminator
from privet.public.diffusion import Lesson
from privet.public.rows import PublicRows


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The noise levels at which guides learn, spread evenly on a logarithmic scale.

    Args:
        least: the lowest level.
        most: the highest level.
        data_spread: the standard deviation of pixels in [-1, 1].
    """

    least: float = 0.01
    most: float = 80.0
    data_spread: float = 0.5

    def noised(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Add noise of a level drawn for each image; return both as `seen` gives them."""
        ratio = math.log(self.most / self.least)
        draws = torch.rand(len(images), generator=generator)
        sigma = (self.least * (ratio * draws).exp()).to(images)
        noise = torch.randn(images.shape, generator=generator).to(images)
        return self.seen(images + sigma[:, None, None, None] * noise, sigma)

    def seen(self, noisy: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Noisy images scaled to unit spread, and ln σ / 4, as EDM gives them to a network."""
        length = (sigma**2 + self.data_spread**2).sqrt()
        return noisy / length[:, None, None, None], sigma.log() / 4


class ClassifierTask:
    """The task of telling the class of a noisy image."""

    def __init__(self, network: NoisyClassifier, levels: Levels | None = None) -> None:
        self.network: nn.Module = network
        self._levels = levels or Levels()

    def losses(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        """The cross-entropy of each image, at a noise level drawn for it."""
        seen, noise = self._levels.noised(lesson.images, generator)
        return F.cross_entropy(self.network(seen, noise), lesson.labels, reduction="none")


class DiscriminatorTask:
    """The task of telling whether a noisy image is real, on rows of `real_and_synthetic`."""

    def __init__(self, network: NoisyDiscriminator, levels: Levels | None = None) -> None:
        self.network: nn.Module = network
        self._levels, self._classes = levels or Levels(), network.classifier.num_classes

    def losses(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        """The binary cross-entropy of each image, at a noise level drawn for it."""
        seen, noise = self._levels.noised(lesson.images, generator)
        logits = self.network(seen, noise, lesson.labels % self._classes)
        real = (lesson.labels < self._classes).to(logits)
        return F.binary_cross_entropy_with_logits(logits, real, reduction="none")


def real_and_synthetic(public: PublicRows, synthetic: PublicRows, num_classes: int) -> PublicRows:
    """Real and synthetic rows in equal numbers, real ones repeated as needed.

    Labels of synthetic rows are raised by the number of classes.
    """
    if not len(public) or not len(synthetic):
        raise DataError("A discriminator needs public and synthetic images, some of both.")
    if public.inputs.shape[1:] != synthetic.inputs.shape[1:]:
        raise DataError("Public and synthetic images are of different shapes.")
    if max(int(public.targets.max()), int(synthetic.targets.max())) >= num_classes:
        raise DataError(f"Labels go beyond the {num_classes} classes.")
    again = public.select(torch.arange(len(synthetic)) % len(public))
    return PublicRows(
        torch.cat([again.inputs, synthetic.inputs]),
        torch.cat([again.targets, synthetic.targets + num_classes]),
    )


class DiscriminatorGuidance:
    """Guidance that adds to a score a weight times the slope of a discriminator's logit.

    Args:
        network: a trained discriminator.
        weight: w_d; 0 leaves a sampler as it is.
        levels: the noise levels of its training.
    """

    def __init__(
        self, network: NoisyDiscriminator, *, weight: float, levels: Levels | None = None
    ) -> None:
        if not 0 <= weight < math.inf:
            raise ConfigError(f"The weight of guidance is {weight:g}; give 0 or more.")
        self._network, self._weight, self._levels = network.eval(), weight, levels or Levels()

    def __call__(self, images: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """What to add to the score of images at noise levels σ, in the precision of the images."""
        with torch.enable_grad():
            x = images.detach().to(torch.float32).requires_grad_()
            seen, noise = self._levels.seen(x, sigma.to(x))
            [slope] = torch.autograd.grad(self._network(seen, noise, labels).sum(), [x])
        return self._weight * slope.to(images)
