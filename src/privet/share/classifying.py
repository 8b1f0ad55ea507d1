"""A classifier trained on synthetic images: ordinary training, with what helps against noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.augment import CropFlip, to_float
from privet.errors import ConfigError
from privet.optim import cosine


@dataclass(frozen=True, kw_only=True)
class ClassifierTraining:
    """How to train.

    Args:
        epochs: passes over the images.
        batch_size: the most images in a step.
        learning_rate: at its highest; it rises for a third of the run, then falls to 0.
        weight_decay: decoupled, as in AdamW.
        label_smoothing: of labels, hard or soft.
        shift: the furthest, in pixels.
        flip: mirror images left to right.
        pixel_noise: standard deviation of noise on pixels in [-1, 1].
        seed: of order and views.
    """

    epochs: int = 8
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    label_smoothing: float = 0.1
    shift: int = 1
    flip: bool = False
    pixel_noise: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 2 or not self.learning_rate > 0:
            raise ConfigError("Training needs epochs, a batch of 2 or more and a learning rate.")


def train_classifier(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    config: ClassifierTraining,
    on_step: Callable[[int, int], None] | None = None,
) -> None:
    """Train in place.

    Args:
        network: from images (N, C, H, W) in [-1, 1] to logits.
        images: uint8 (N, H, W, C).
        labels: a class each, or probabilities (N, classes).
        config: how.
        on_step: told how many steps of how many are done.
    """
    _check(images, labels)
    labels = labels.float() if labels.is_floating_point() else labels
    generator = torch.Generator().manual_seed(config.seed)
    view = CropFlip(padding=config.shift, flip=config.flip)
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=True,
    )
    per_epoch = max(1, len(images) // config.batch_size)
    schedule, total = cosine(warm_up=0.3), config.epochs * per_epoch
    device = next(network.parameters()).device
    network.train()
    for step in range(total):
        if step % per_epoch == 0:
            order = torch.tensor_split(torch.randperm(len(images), generator=generator), per_epoch)
        rows = order[step % per_epoch]
        inputs = view(to_float(images[rows]), 1, generator)
        inputs = inputs + config.pixel_noise * torch.randn(inputs.shape, generator=generator)
        logits = network(inputs.to(device))
        loss = F.cross_entropy(
            logits, labels[rows].to(device), label_smoothing=config.label_smoothing
        )
        if not math.isfinite(float(loss.detach())):
            raise ConfigError("The classifier's loss is not finite: lower its learning rate.")
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * schedule(step, total)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        if on_step is not None:
            on_step(step + 1, total)
    network.eval()


def _check(images: Tensor, labels: Tensor) -> None:
    soft = labels.is_floating_point()
    if len(labels) != len(images) or labels.dim() != (2 if soft else 1):
        raise ConfigError(
            f"Labels are of shape {tuple(labels.shape)} for {len(images)} images: give a class "
            "each, or a row of probabilities."
        )
    if soft and not ((labels >= 0).all() and (labels.sum(1) - 1).abs().max() < 1e-3):
        raise ConfigError("Labels are no probabilities: give rows from 0 that sum to 1.")
