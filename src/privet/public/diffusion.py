"""Networks that learn at noise levels: diffusion models of public images, and their guides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from privet.augment import NonLeaking, to_float
from privet.errors import ConfigError, DataError
from privet.keys import keyed, seeded
from privet.optim import update_average
from privet.optim.states import Checkpoint, adam_state, restore_adam, under
from privet.public.rows import PublicRows

OnStep = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Lesson:
    """A batch of images to learn from.

    Args:
        images: (N, C, H, W), in [-1, 1].
        labels: the class of each image.
        augmentation: what was done to each image, for the network to know; `None` for nothing.
    """

    images: Tensor
    labels: Tensor
    augmentation: Tensor | None = None


class Task(Protocol):
    """A network and its loss on noisy images: `Edm`, `Ddpm`, and tasks of guides."""

    network: nn.Module

    def losses(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        """The loss of each image, at a noise level drawn for it."""


@dataclass(frozen=True, kw_only=True)
class DiffusionTraining:
    """How to train; the defaults are for minutes on a CPU.

    Args:
        iterations: steps of Adam.
        batch_size: images in a step, drawn with replacement.
        learning_rate: the learning rate after the warm-up.
        warm_up: the share of the run in which the learning rate rises.
        half_life: the half-life of the average of weights, in images; early on it is `ramp` times
            the number of images that were seen.
        ramp: that factor.
        augment: changes made to images and told to the network; `None` leaves images as they are.
    """

    iterations: int = 3000
    batch_size: int = 64
    learning_rate: float = 1e-3
    warm_up: float = 0.05
    half_life: float = 500_000.0
    ramp: float = 0.05
    augment: NonLeaking | None = field(default_factory=NonLeaking)

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.batch_size < 1:
            raise ConfigError("A diffusion model needs at least one iteration of one image.")
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"learning_rate is {self.learning_rate:g}; give a number above 0.")
        if not 0 <= self.warm_up <= 1 or self.half_life <= 0 or self.ramp <= 0:
            raise ConfigError("warm_up is a share; half_life and ramp must be above 0.")

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        rising = self.warm_up * self.iterations
        return self.learning_rate * min(1.0, (step + 1) / max(1.0, rising))

    def decay(self, step: int) -> float:
        """The decay of the average of weights at a step, from 0."""
        half_life = min(self.half_life, self.ramp * (step + 1) * self.batch_size)
        return float(0.5 ** (self.batch_size / half_life))


def train_at_noise_levels(
    task: Task,
    public: PublicRows,
    config: DiffusionTraining,
    *,
    seed: int = 0,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Train a network in place; at the end it has the average of its weights.

    Args:
        task: the network and its loss.
        public: images, which may be remembered in full.
        config: how long, how fast and on what views.
        seed: the seed of everything that is drawn, which depends on it and the step alone.
        on_step: called with the number of steps done and the loss.
        checkpoint: keeps the state, from which a killed training goes on to the same end.
    """
    _check(public)
    network = task.network.train()
    device = next(network.parameters()).device
    adam = torch.optim.Adam(network.parameters(), lr=config.learning_rate, fused=True)
    average = {name: each.detach().clone() for name, each in network.state_dict().items()}
    kept = None if checkpoint is None else checkpoint.kept()
    first = 0 if kept is None else _restored(kept, network, adam, average)
    for step in range(first, config.iterations):
        generator = keyed(seed, step)
        rows = torch.randint(len(public), (config.batch_size,), generator=generator)
        batch = public.select(rows)
        images, augmentation = to_float(batch.inputs), None
        if config.augment is not None:
            images, augmentation = config.augment(images, generator)
            augmentation = augmentation.to(device)
        with seeded(generator):  # dropout
            lesson = Lesson(images.to(device), batch.targets.to(device), augmentation)
            losses = task.losses(lesson, generator)
        loss = losses.mean()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(f"The loss is {value} in step {step}: lower the learning rate.")
        for group in adam.param_groups:
            group["lr"] = config.rate(step)
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        update_average(average, network.state_dict(), step, config.decay(step))
        if on_step is not None:
            on_step(step + 1, value)
        if checkpoint is not None:
            checkpoint.passed(partial(_state, step + 1, network, adam, average))
    network.load_state_dict(average)
    network.eval()


def noise_of(
    numbers: Sequence[int],
    image_shape: tuple[int, int, int],
    seed: int,
    device: torch.device,
    step: int,
) -> Tensor:
    """Standard normal noise (N, C, H, W) in double precision, for each image and step its own."""
    height, width, channels = image_shape
    size = (channels, height, width)
    draws = [torch.randn(size, generator=keyed(seed, each, step)) for each in numbers]
    return torch.stack(draws).to(device, torch.float64)


def _check(public: PublicRows) -> None:
    if not len(public):
        raise DataError("There are no public images: a diffusion model needs some.")
    if public.inputs.dtype != torch.uint8:
        raise DataError("A diffusion model is made of images, and the public rows are features.")


def _state(
    step: int, network: nn.Module, adam: torch.optim.Optimizer, average: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    found = {"step": torch.tensor(step)}
    found |= {f"network/{name}": each for name, each in network.state_dict().items()}
    found |= {f"average/{name}": each for name, each in average.items()}
    return found | {f"adam/{name}": each for name, each in adam_state(adam).items()}


def _restored(
    kept: Mapping[str, Tensor],
    network: nn.Module,
    adam: torch.optim.Optimizer,
    average: dict[str, Tensor],
) -> int:
    try:
        network.load_state_dict(under("network/", kept))
        restore_adam(adam, under("adam/", kept))
        for name, each in under("average/", kept).items():
            average[name].copy_(each)
        return int(kept["step"])
    except (RuntimeError, KeyError, ValueError):
        raise DataError(
            "The checkpoint is of another network or version: remove what is unfinished among the "
            "run's steps, and it begins again."
        ) from None
