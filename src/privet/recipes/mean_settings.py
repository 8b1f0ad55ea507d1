"""What DP-MERF and DP-MEPF decide before a private row is read, and what is chosen otherwise.

References:
    Harder et al. 2021 (DP-MERF); Harder et al. 2023 (DP-MEPF, Tables 7 and 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from privet.recipes.choices import Choice, Chosen, Situation, chosen
from privet.recipes.generators import generator_choice
from privet.synthesis import GeneratorTraining

MEDIAN = "the median distance between public images"
"""The reason for a length scale that rests on them."""


@dataclass(frozen=True, kw_only=True)
class MeanEmbedding:
    """What both systems decide before a private row is read.

    Args:
        training: of the generator; none leaves it to `chosen`.
        average_rate: of the moving average of the gap between embeddings.
        count_share: of the clip norm that a class count weighs.
        latent: length of the generator's latent vectors.
        generator: upsampling, residual or code; none takes the residual one where it fits.
        widths: of the layers of an upsampling one.
        width: of the last block of a residual one.
        batch_size: images that are sampled at once.
        seed: of features and generator.
    """

    training: GeneratorTraining | None = None
    average_rate: float = 1e-2
    count_share: float = 0.08
    latent: int = 32
    generator: str | None = None
    widths: tuple[int, int, int, int] = (96, 64, 32, 16)
    width: int = 32
    batch_size: int = 1000
    seed: int = 0

    def chosen(self, situation: Situation) -> Chosen[Self]:
        """With choices where none were given."""
        return chosen(self, situation, [_training, generator_choice])


@dataclass(frozen=True, kw_only=True)
class DpMerf(MeanEmbedding):
    """Random Fourier features of pixels.

    Args:
        size: D.
        length_scale: of the Gaussian kernel, in pixels from 0 to 1; none leaves it to `chosen`.
    """

    size: int = 10_000
    length_scale: float | None = None

    def chosen(self, situation: Situation) -> Chosen[Self]:
        """With choices where none were given."""
        return chosen(self, situation, [_training, generator_choice, _length_scale])


@dataclass(frozen=True, kw_only=True)
class DpMepf(MeanEmbedding):
    """Perceptual features, of unit norm.

    Args:
        layers: of the encoder; none are given for all convolutions larger than 1×1.
        second: match squares too (φ₂).
        stopping: keep the weights that a second release likes best.
        stopping_noise: that release's noise multiplier against the first's.
        checks: how often the generator is looked at.
    """

    layers: tuple[str, ...] = ()
    second: bool = True
    stopping: bool = False
    stopping_noise: float = 10.0
    checks: int = 20


def _training(s: MeanEmbedding, situation: Situation) -> Choice:
    """Batches of 100, and twice the steps for photographs, as in Table 8, but fewer of them."""
    height, width, channels = situation.image_shape
    iterations = 4000 if channels == 3 or max(height, width) > 28 else 2000
    per_class = max(1, round(100 / situation.num_classes))
    training = GeneratorTraining(iterations=iterations, per_class=per_class, learning_rate=1e-3)
    kind = "colour" if channels == 3 else "grey"
    because = f"batches of 100 {kind} images of {height}×{width}"
    return Choice({"training": training}, because)


def _length_scale(s: DpMerf, situation: Situation) -> Choice:
    """The median heuristic; else 10 at 28×28, near what DP-MERF was published with (σ² = 105)."""
    median = situation.median_distance
    if median is not None:
        scale = float(f"{median:.2g}")
        return Choice({"length_scale": scale}, MEDIAN)
    height, width, channels = situation.image_shape
    scale = float(f"{10 * math.sqrt(height * width * channels / 28**2):.2g}")
    because = f"no public images, and {height}×{width} pixels"
    return Choice({"length_scale": scale}, because)
