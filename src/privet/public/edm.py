"""EDM: a preconditioned denoising network, and Heun's method to draw images from it.

References:
    Karras et al., Elucidating the Design Space of Diffusion-Based Generative Models, 2022. Paper
    IDS draws with the settings of its Appendix C.2, which are the defaults here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.public.diffusion import Lesson, noise_of

Guidance = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From noisy images, noise levels and labels to what is added to the score, in double precision."""


class Edm(nn.Module):
    """D(x; σ): what an image was before noise of level σ was added (Table 1 of EDM).

    Args:
        network: from scaled images, ln σ / 4, labels and augmentations to images.
        data_spread: σ_data, the standard deviation of pixels in [-1, 1].
        noise_mean: the mean of ln σ in training.
        noise_spread: the standard deviation of ln σ in training.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        data_spread: float = 0.5,
        noise_mean: float = -1.2,
        noise_spread: float = 1.2,
    ) -> None:
        super().__init__()
        if not data_spread > 0 or noise_spread < 0:
            raise ConfigError("data_spread must be above 0, and noise_spread 0 or more.")
        self.network, self.data_spread = network, data_spread
        self.noise_mean, self.noise_spread = noise_mean, noise_spread

    def forward(
        self, images: Tensor, sigma: Tensor, labels: Tensor, augmentation: Tensor | None = None
    ) -> Tensor:
        """Denoised images, (N, C, H, W), at a noise level each, (N,)."""
        s, d = sigma[:, None, None, None], self.data_spread
        length = (s**2 + d**2).sqrt()
        answer = self.network(images / length, sigma.log() / 4, labels, augmentation)
        found: Tensor = (d / length) ** 2 * images + s * d / length * answer
        return found

    def losses(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        """The loss of each image, weighed so that the network's error counts alike at any noise."""
        images = lesson.images
        draws = torch.randn(len(images), generator=generator)
        sigma = (self.noise_mean + self.noise_spread * draws).exp().to(images)
        noise = torch.randn(images.shape, generator=generator).to(images)
        noisy = images + sigma[:, None, None, None] * noise
        weight = (sigma**2 + self.data_spread**2) / (sigma * self.data_spread) ** 2
        found: Tensor = self(noisy, sigma, lesson.labels, lesson.augmentation)
        return weight * (found - images).square().mean((1, 2, 3))


@dataclass(frozen=True, kw_only=True)
class Heun:
    """Second-order steps from noise to images, with or without fresh noise between them.

    Args:
        steps: N; the network is asked 2N − 1 times.
        least: the lowest noise level but 0.
        most: the first noise level.
        rho: how much more often low levels are visited.
        churn: how much fresh noise there is in all; 0 draws each image from its first noise alone.
        churn_least: the lowest level at which fresh noise is added.
        churn_most: the highest such level; `None` for no limit.
        churn_spread: the standard deviation of fresh noise.
    """

    steps: int = 18
    least: float = 0.002
    most: float = 80.0
    rho: float = 7.0
    churn: float = 0.0
    churn_least: float = 0.0
    churn_most: float | None = None
    churn_spread: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"steps is {self.steps}; give 1 or more.")
        if not 0 < self.least <= self.most < math.inf or not self.rho > 0:
            raise ConfigError("Noise levels must rise from above 0, and rho be above 0.")
        if self.churn < 0 or self.churn_spread < 0:
            raise ConfigError("churn and churn_spread must be 0 or more.")

    @property
    def levels(self) -> Tensor:
        """Noise levels, from the first to 0, in double precision."""
        first, last = self.most ** (1 / self.rho), self.least ** (1 / self.rho)
        places = torch.arange(self.steps, dtype=torch.float64) / max(1, self.steps - 1)
        return torch.cat([(first + places * (last - first)) ** self.rho, torch.zeros(1)])

    def __call__(
        self,
        model: Edm,
        labels: Tensor,
        image_shape: tuple[int, int, int],
        numbers: Sequence[int],
        *,
        seed: int = 0,
        guidance: Guidance | None = None,
    ) -> Tensor:
        """Draw images (N, C, H, W), about in [-1, 1], each from its own number and the seed.

        Args:
            model: a trained model.
            labels: the class of each image.
            image_shape: height, width and channels.
            numbers: the number of each image, which does not depend on others drawn beside it.
            seed: the seed of all images.
            guidance: what is added to the score; `None` for nothing.
        """
        device = next(model.parameters()).device
        noise = partial(noise_of, numbers, image_shape, seed, device)
        slope = _Slope(model, labels.to(device), guidance)
        levels = self.levels.tolist()
        x: Tensor = levels[0] * noise(0)
        for step, (level, following) in enumerate(pairwise(levels), 1):
            raised = self._raised(level)
            if raised > level:
                spread = self.churn_spread * math.sqrt(raised**2 - level**2)
                x = x + spread * noise(step)
            here = slope(x, raised)
            moved = x + (following - raised) * here
            if following > 0:
                moved = x + (following - raised) * (here + slope(moved, following)) / 2
            x = moved
        return x.to(torch.float32)

    def _raised(self, level: float) -> float:
        """The noise level after fresh noise was added."""
        if level < self.churn_least or level > (self.churn_most or math.inf):
            return level
        return level * (1 + min(self.churn / self.steps, math.sqrt(2) - 1))


class _Slope:
    """dx/dσ of the flow from noise to images, in double precision; the network works in single."""

    def __init__(self, model: Edm, labels: Tensor, guidance: Guidance | None) -> None:
        self._model, self._labels, self._guidance = model, labels, guidance

    def __call__(self, x: Tensor, level: float) -> Tensor:
        levels = torch.full((len(x),), level, dtype=torch.float64, device=x.device)
        with torch.no_grad():
            denoised: Tensor = self._model(x.float(), levels.float(), self._labels)
        found = (x - denoised.double()) / level
        if self._guidance is not None:
            found = found - level * self._guidance(x, levels, self._labels)
        return found
