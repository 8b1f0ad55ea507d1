"""DDPM: the older way to ask a network about noise, which DOPE-SGD draws public images with.

References:
    Ho et al., Denoising Diffusion Probabilistic Models, 2020; Nichol and Dhariwal, 2021 (fewer
    steps in sampling than in training).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.public.diffusion import Lesson, noise_of


class Ddpm(nn.Module):
    """ε(x; t): the noise in an image after t of a thousand steps.

    Args:
        network: from noisy images, t, labels and augmentations to noise.
        steps: the number of noising steps.
        first: β at the first step.
        last: β at the last step; it is linear in between.
    """

    kept: Tensor

    def __init__(
        self, network: nn.Module, *, steps: int = 1000, first: float = 1e-4, last: float = 0.02
    ) -> None:
        super().__init__()
        if steps < 1 or not 0 < first <= last < 1:
            raise ConfigError("DDPM needs one step or more, and β rising from above 0 to below 1.")
        self.network = network
        betas = torch.linspace(first, last, steps, dtype=torch.float64)
        self.register_buffer("kept", (1 - betas).cumprod(0), persistent=False)

    def losses(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        """The squared error of the predicted noise, at a step drawn for each image."""
        images = lesson.images
        times = torch.randint(len(self.kept), (len(images),), generator=generator)
        noise = torch.randn(images.shape, generator=generator).to(images)
        kept = self.kept.cpu()[times].to(images)[:, None, None, None]
        noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
        found: Tensor = self.network(noisy, times.to(images), lesson.labels, lesson.augmentation)
        return (found - noise).square().mean((1, 2, 3))


@dataclass(frozen=True, kw_only=True)
class Ancestral:
    """A sampler that goes back through some of the noising steps, with fresh noise at each.

    Args:
        steps: how many steps to take, evenly spaced among those of the training.
    """

    steps: int = 50

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"steps is {self.steps}; give 1 or more.")

    def __call__(
        self,
        model: Ddpm,
        labels: Tensor,
        image_shape: tuple[int, int, int],
        numbers: Sequence[int],
        *,
        seed: int = 0,
    ) -> Tensor:
        """Draw images (N, C, H, W) in [-1, 1], each from its own number and the seed."""
        device = model.kept.device
        noise = partial(noise_of, numbers, image_shape, seed, device)
        labels, x = labels.to(device), noise(0)
        for number, (time, before) in enumerate(pairwise(self._times(len(model.kept))), 1):
            kept = float(model.kept[time])
            kept_before = 1.0 if before < 0 else float(model.kept[before])
            times = torch.full((len(x),), float(time), device=device)
            with torch.no_grad():
                found: Tensor = model.network(x.to(torch.float32), times, labels)
            # Images lie in [-1, 1], and so does what is left of one without its noise.
            clean = (x - (1 - kept) ** 0.5 * found.to(torch.float64)) / kept**0.5
            clean = clean.clamp(-1, 1)
            step = kept / kept_before
            x = (kept_before**0.5 * (1 - step) * clean + step**0.5 * (1 - kept_before) * x) / (
                1 - kept
            )
            if before >= 0:
                x = x + ((1 - step) * (1 - kept_before) / (1 - kept)) ** 0.5 * noise(number)
        return x.to(torch.float32)

    def _times(self, total: int) -> list[int]:
        """The noising steps to visit, from the last one down to -1, which is before the first."""
        places = torch.linspace(total - 1, 0, min(self.steps, total), dtype=torch.float64)
        return [*places.round().long().tolist(), -1]
