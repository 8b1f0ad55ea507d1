"""Claim: summarising private images costs about a forward pass, and matching about a training step.

Ratios in one process, alternating: the median of the rounds' own ratios. Images are random; the
encoder is the one of the release study without its training, which changes no time. Beside it, a
WRN-16-4 with all its 3x3 convolutions and 192 projections, as SPS takes at epsilon 1 of a WRN-22-8
(appendix D.2): the ratios there say what a network of usual size pays.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import machine
from privet.augment import CropCurriculum, to_float
from privet.hedge import Units, clipped_sum
from privet.models import ConvEncoder, WideResNet
from privet.recipes.generators import generator_for
from privet.recipes.map_moments import SpsG, sps_g_embedding
from privet.recipes.position_moments import sps_embedding
from privet.recipes.sps_settings import Sps
from privet.release import Cleaning, Embedding, GaussianTarget, MomentDiscriminant
from privet.synthesis import (
    GaussianMatching,
    PixelOptimisation,
    optimised,
    sampled,
    train_generator,
)
from timing import Seconds, timed

SHAPE, CLASSES = (28, 28, 1), 10
BATCH, STEP_BATCH = 500, 200
SPS = Sps(global_size=48, class_size=48)
WIDE_SHAPE, WIDE_COUNT, WIDE_STEP_BATCH = (32, 32, 3), 200, 100
WIDE_SPS = Sps(global_size=192, class_size=192)
SPS_G = SpsG().fitted(6.2e-4, SHAPE)


def images(count: int, seed: int, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    """Smooth random ones: noise alone would have no principal components."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.normal(size=(count, shape[2], 7, 7)).astype(np.float32))
    fine = nn.functional.interpolate(coarse, shape[:2], mode="bilinear")
    return ((fine.clamp(-2, 2) + 2) * 63.75).to(torch.uint8).movedim(1, -1).contiguous()


def wide_encoder() -> nn.Module:
    """BatchNorm and a smooth activation, as SPS asks for."""
    network = WideResNet(16, 4, CLASSES, norm="batch", activation=nn.SiLU)
    return network.features.eval().requires_grad_(False)


def forward(encoder: nn.Module, rows: Tensor) -> None:
    """A plain pass."""
    with torch.inference_mode():
        for batch in torch.split(rows, BATCH):
            encoder(to_float(batch))


def summed(embedding: Embedding, rows: Tensor) -> None:
    """One clipped sum."""
    labels = torch.arange(len(rows)) % CLASSES
    batches = (
        Units({"images": batch, "labels": own}, torch.arange(len(batch) + 1))
        for batch, own in zip(torch.split(rows, BATCH), torch.split(labels, BATCH), strict=True)
    )
    clipped_sum(batches, embedding, 1.0)


def summarising(rounds: int, count: int) -> dict[str, float]:
    """One clipped sum over all images against a forward pass over them."""
    encoder, rows = ConvEncoder(1).folded(), images(count, 0)
    sps = sps_embedding(encoder, SPS.of(encoder), SHAPE, CLASSES, 0, 1.0)
    sps_g = sps_g_embedding(SPS_G, encoder, rows[:2000], CLASSES)
    seconds = timed(
        {
            "forward": lambda: forward(encoder, rows),
            "sps": lambda: summed(sps, rows),
            "sps_g": lambda: summed(sps_g, rows),
        },
        rounds,
    )
    return {
        "summary_sps_over_forward": seconds.ratio("sps", "forward"),
        "summary_sps_g_over_forward": seconds.ratio("sps_g", "forward"),
        "images_per_second_summarised": count / seconds.of("sps_g"),
    }


def summarising_wide(rounds: int) -> dict[str, float]:
    """The same with a WRN-16-4."""
    encoder, rows = wide_encoder(), images(WIDE_COUNT, 0, WIDE_SHAPE)
    sps = sps_embedding(encoder, WIDE_SPS.of(encoder), WIDE_SHAPE, CLASSES, 0, 1.0)
    seconds = timed(
        {"forward": lambda: forward(encoder, rows), "sps": lambda: summed(sps, rows)}, rounds
    )
    return {"summary_sps_over_forward_wrn": seconds.ratio("sps", "forward")}


def _targets(embedding: Embedding, rows: Tensor) -> dict[str, GaussianTarget]:
    found, _ = embedding.moments(rows, torch.arange(len(rows)) % CLASSES)
    cleaning = Cleaning(least_jitter=0.1)
    return {
        name: cleaning(each, torch.zeros(len(each.mean)))
        for name, each in found.items()
        if each.second is not None
    }


def pixel_seconds(
    encoder: nn.Module,
    embedding: Embedding,
    public: Tensor,
    start: Tensor,
    config: PixelOptimisation,
    rounds: int,
) -> Seconds:
    """Steps of pixel optimisation against the encoder's bare forward and backward pass."""
    with torch.no_grad():
        targets = _targets(embedding, public)
    labels = torch.arange(len(start)) % CLASSES

    def bare() -> None:
        for _ in range(config.iterations):
            pixels = start.clone().requires_grad_()
            torch.autograd.grad(encoder(pixels).sum(), pixels)

    def steps(clip_norm: float | None) -> Callable[[], Tensor]:
        matching = GaussianMatching(embedding, targets, clip_norm=clip_norm)
        return lambda: optimised(
            start, labels, matching, config, generator=torch.Generator().manual_seed(0)
        )

    return timed({"bare": bare, "step": steps(None), "clipped": steps(1.0)}, rounds)


def pixel_step(rounds: int) -> dict[str, float]:
    """With the small encoder."""
    encoder = ConvEncoder(1).folded().requires_grad_(False)
    embedding = sps_embedding(encoder, SPS.of(encoder), SHAPE, CLASSES, 0, 1.0)
    config = PixelOptimisation(iterations=4, view=CropCurriculum())
    start = torch.randn(STEP_BATCH, 1, 28, 28)
    seconds = pixel_seconds(encoder, embedding, images(1000, 1), start, config, rounds)
    per_image = seconds.of("step") / config.iterations * 300 / STEP_BATCH
    return {
        "pixel_step_over_encoder": seconds.ratio("step", "bare"),
        "pixel_step_clipped_over_encoder": seconds.ratio("clipped", "bare"),
        "pixel_images_per_second_300_iterations": 1 / per_image,
    }


def pixel_step_wide(rounds: int) -> dict[str, float]:
    """With a WRN-16-4."""
    encoder, public = wide_encoder(), images(WIDE_COUNT, 1, WIDE_SHAPE)
    embedding = sps_embedding(encoder, WIDE_SPS.of(encoder), WIDE_SHAPE, CLASSES, 0, 1.0)
    config = PixelOptimisation(iterations=1, view=CropCurriculum())
    start = torch.randn(WIDE_STEP_BATCH, 3, 32, 32)
    seconds = pixel_seconds(encoder, embedding, public, start, config, rounds)
    return {
        "pixel_step_over_encoder_wrn": seconds.ratio("step", "bare"),
        "pixel_step_clipped_over_encoder_wrn": seconds.ratio("clipped", "bare"),
    }


def generating(rounds: int) -> dict[str, float]:
    """SPS-G: images per second of sampling, and of everything for a set of 10,000."""
    encoder, rows = ConvEncoder(1).folded(), images(4000, 2)
    embedding = sps_g_embedding(SPS_G, encoder, rows, CLASSES)
    with torch.no_grad():
        targets = _targets(embedding, rows)
    matching = GaussianMatching(embedding, targets, clip_norm=SPS_G.clip_norm)
    generator = generator_for(SPS_G, CLASSES, SHAPE)
    few = SPS_G.training.__class__(iterations=10)
    judge = MomentDiscriminant.quadratic(embedding, targets)
    labels = torch.arange(2000) % CLASSES
    latent = SPS_G.latent
    start = time.perf_counter()
    train_generator(generator, matching, few, latent=latent, num_classes=CLASSES)
    seconds = timed(
        {
            "training": lambda: train_generator(
                generator, matching, few, latent=latent, num_classes=CLASSES
            ),
            "sampling": lambda: sampled(generator, labels, latent=latent, seed=0),
        },
        rounds,
    )
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    training = seconds.of("training") / 10 * SPS_G.training.iterations
    begun = time.perf_counter()
    judge.scores(torch.from_numpy(sampled(generator, labels[:500], latent=latent, seed=0)))
    judged = 500 / (time.perf_counter() - begun)
    sampling = len(labels) / seconds.of("sampling")
    return {
        "generator_seconds": training,
        "sampled_per_second": sampling,
        "sampled_and_judged_per_second": judged,
        "images_per_second_of_10000": 10_000 / (training + 10_000 / judged),
    }


def main() -> None:
    """Measure and keep."""
    options = machine.arguments(__doc__ or "", rounds=5, seed=0, images=6000)
    torch.manual_seed(options.seed)
    results = {
        **summarising(options.rounds, options.images),
        **summarising_wide(options.rounds),
        **pixel_step(options.rounds),
        **pixel_step_wide(options.rounds),
        **generating(options.rounds),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }

    def text() -> str:
        return "\n".join(f"{name}: {value:.3g}" for name, value in results.items())

    machine.keep("release_cost", results, text, seeds=[options.seed], json_=options.json)


if __name__ == "__main__":
    main()
