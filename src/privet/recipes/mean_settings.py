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
"""The reason given for a length scale that rests on public images."""


@dataclass(frozen=True, kw_only=True)
class MeanEmbedding:
    """The settings that both systems share, decided before a private row is read.

    Args:
        training: how the generator is trained; None leaves it to `chosen`.
        average_rate: rate of the moving average of the gap between embeddings.
        count_share: the weight of a class count, as a share of the clip norm.
        latent: length of the generator's latent vectors.
        generator: upsampling, residual or code; None takes the residual one where it fits.
        widths: widths of the layers of an upsampling generator.
        width: width of the last block of a residual generator.
        batch_size: images that are sampled at once.
        seed: the seed of features and generator.
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
        """Fill in settings that are None, with a reason for each choice."""
        return chosen(self, situation, [_training, generator_choice])


@dataclass(frozen=True, kw_only=True)
class DpMerf(MeanEmbedding):
    """The settings of DP-MERF: random Fourier features of pixels.

    Args:
        size: D, the number of Fourier features.
        length_scale: length scale of the Gaussian kernel, in pixels from 0 to 1; None leaves it to
            `chosen`.
    """

    size: int = 10_000
    length_scale: float | None = None

    def chosen(self, situation: Situation) -> Chosen[Self]:
        """Fill in settings that are None, with a reason for each choice."""
        return chosen(self, situation, [_training, generator_choice, _length_scale])


@dataclass(frozen=True, kw_only=True)
class DpMepf(MeanEmbedding):
    """The settings of DP-MEPF: perceptual features of unit norm.

    Args:
        layers: layers of the encoder; empty takes all convolutions larger than 1×1.
        second: match squares too (φ₂).
        stopping: make a second release, and keep the generator's weights that fit it best.
        stopping_noise: noise multiplier of the second release, as a multiple of the first's.
        checks: how often weights are compared with the second release.
    """

    layers: tuple[str, ...] = ()
    second: bool = True
    stopping: bool = False
    stopping_noise: float = 10.0
    checks: int = 20


def _training(s: MeanEmbedding, situation: Situation) -> Choice:
    """Choose batches of 100, and twice the steps for photographs.

    Both are as in Table 8, but for fewer steps.
    """
    height, width, channels = situation.image_shape
    iterations = 4000 if channels == 3 or max(height, width) > 28 else 2000
    per_class = max(1, round(100 / situation.num_classes))
    training = GeneratorTraining(iterations=iterations, per_class=per_class, learning_rate=1e-3)
    kind = "colour" if channels == 3 else "grey"
    because = f"batches of 100 {kind} images of {height}×{width}"
    return Choice({"training": training}, because)


def _length_scale(s: DpMerf, situation: Situation) -> Choice:
    """Choose a length scale by the median heuristic, else 10 at 28×28.

    That is near what DP-MERF was published with (σ² = 105).
    """
    median = situation.median_distance
    if median is not None:
        scale = float(f"{median:.2g}")
        return Choice({"length_scale": scale}, MEDIAN)
    height, width, channels = situation.image_shape
    scale = float(f"{10 * math.sqrt(height * width * channels / 28**2):.2g}")
    because = f"no public images, and {height}×{width} pixels"
    return Choice({"length_scale": scale}, because)
