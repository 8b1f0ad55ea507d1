"""A classifier trained on synthetic images: ordinary training, with what helps against noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.augment import CropFlip, to_float
from privet.errors import ConfigError
from privet.optim import Sharpness, cosine
from privet.optim.sharpness import gradient_of

_PUBLISHED_EPOCHS = (
    *((1000, 100), (2500, 60), (5000, 45), (10_000, 30), (15_000, 24), (20_000, 20)),
    *((25_000, 18), (40_000, 12), (50_000, 10)),
)


@dataclass(frozen=True, kw_only=True)
class ClassifierTraining:
    """How to train a classifier on synthetic images.

    Args:
        epochs: passes over the images.
        batch_size: the most images in a step.
        learning_rate: at its highest; it rises for a third of the run, then falls to 0.
        optimizer: AdamW, or SGD with Nesterov's momentum of 0.9.
        weight_decay: decoupled in AdamW, a part of the gradient in SGD.
        sharpness: how to look for flat minima (SAM, ASAM, GSAM); `None` takes the plain gradient.
        freeze_norms: keep BatchNorm as it was pretrained, statistics and weights, for good.
        label_smoothing: the share of every label, hard or soft, that is spread over all classes.
        shift: the largest shift of an image, in pixels.
        flip: mirror images left to right.
        pixel_noise: standard deviation of noise on pixels in [-1, 1].
        seed: the seed of the order of images and of their views.
    """

    epochs: int = 8
    batch_size: int = 128
    learning_rate: float = 3e-3
    optimizer: Literal["adamw", "sgd"] = "adamw"
    weight_decay: float = 0.05
    sharpness: Sharpness | None = None
    freeze_norms: bool = False
    label_smoothing: float = 0.1
    shift: int = 1
    flip: bool = False
    pixel_noise: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 2 or not self.learning_rate > 0:
            raise ConfigError("Training needs epochs, a batch of 2 or more and a learning rate.")
        if self.optimizer not in ("adamw", "sgd"):
            raise ConfigError(f"optimizer is {self.optimizer!r}; give 'adamw' or 'sgd'.")

    @classmethod
    def as_published(cls, images: int) -> Self:
        """Settings to fine-tune a pretrained network on so many images (SPS, D.3, Table 12)."""
        sizes, epochs = zip(*_PUBLISHED_EPOCHS, strict=True)
        return cls(
            epochs=max(1, round(float(np.interp(images, sizes, epochs)))),
            batch_size=256,
            learning_rate=1e-5,
            weight_decay=0.0,
            sharpness=Sharpness(kind="gsam", radius=0.05, least_radius=0.02, alpha=0.04),
            freeze_norms=True,
            label_smoothing=0.0,
        )

    def optimiser_of(self, network: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of these settings, over all weights of a network."""
        if self.optimizer == "adamw":
            return torch.optim.AdamW(
                network.parameters(), self.learning_rate, weight_decay=self.weight_decay, fused=True
            )
        return torch.optim.SGD(
            network.parameters(),
            self.learning_rate,
            momentum=0.9,
            nesterov=True,
            weight_decay=self.weight_decay,
        )


def train_classifier(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    config: ClassifierTraining,
    on_step: Callable[[int, int], None] | None = None,
) -> None:
    """Train a network in place.

    Args:
        network: from images (N, C, H, W) in [-1, 1] to logits.
        images: uint8 (N, H, W, C).
        labels: a class number for each image, or probabilities (N, classes).
        config: how to train.
        on_step: called with the number of steps done and that of all steps.
    """
    _check(images, labels)
    labels = labels.float() if labels.is_floating_point() else labels
    generator = torch.Generator().manual_seed(config.seed)
    view = CropFlip(padding=config.shift, flip=config.flip)
    optimizer = config.optimiser_of(network)
    per_epoch = max(1, len(images) // config.batch_size)
    schedule, total = cosine(warm_up=0.3), config.epochs * per_epoch
    device = next(network.parameters()).device
    network.train()
    if config.freeze_norms:
        _freeze_norms(network)
    for step in range(total):
        if step % per_epoch == 0:
            order = torch.tensor_split(torch.randperm(len(images), generator=generator), per_epoch)
        rows = order[step % per_epoch]
        inputs = view(to_float(images[rows]), 1, generator)
        inputs = inputs + config.pixel_noise * torch.randn(inputs.shape, generator=generator)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * schedule(step, total)
        sharpness = config.sharpness and config.sharpness.at(schedule(step, total))
        _set_gradient(network, inputs.to(device), labels[rows].to(device), config, sharpness)
        optimizer.step()
        if on_step is not None:
            on_step(step + 1, total)
    network.eval()


def _freeze_norms(network: nn.Module) -> None:
    for each in network.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            each.eval()
            each.requires_grad_(False)


def _set_gradient(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    config: ClassifierTraining,
    sharpness: Sharpness | None,
) -> None:
    """Set the gradient that the optimizer follows: the plain one, or that of sharpness."""
    weights = {name: each for name, each in network.named_parameters() if each.requires_grad}

    def gradient() -> dict[str, Tensor]:
        logits = network(inputs)
        loss = F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing)
        if not math.isfinite(float(loss.detach())):
            raise ConfigError("The classifier's loss is not finite: lower its learning rate.")
        return gradient_of(loss, weights)

    found = gradient()
    if sharpness is not None:
        found = sharpness.gradient(network, found, gradient)
    for name, each in weights.items():
        each.grad = found[name]


def _check(images: Tensor, labels: Tensor) -> None:
    soft = labels.is_floating_point()
    if len(labels) != len(images) or labels.dim() != (2 if soft else 1):
        raise ConfigError(
            f"Labels are of shape {tuple(labels.shape)} for {len(images)} images: give a class "
            "each, or a row of probabilities."
        )
    if soft and not ((labels >= 0).all() and (labels.sum(1) - 1).abs().max() < 1e-3):
        raise ConfigError("Labels are no probabilities: give rows from 0 that sum to 1.")
