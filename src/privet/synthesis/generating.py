"""Training a generator to match a release, and drawing any number of images from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.augment import to_float, to_pixels
from privet.errors import ConfigError
from privet.keys import keyed
from privet.optim.states import Checkpoint, Stateful, adam_state, restore_adam, under
from privet.synthesis.matching import Matching
from privet.synthesis.pixels import PixelOptimisation, optimised

OnStep = Callable[[int, float], None]
_BATCH = 500
_MOST_ATTEMPTS = 20
_APART = 1 << 32  # seeds of attempts, beyond those of batches


class Judge(Protocol):
    """A classifier that is made of released values alone."""

    def scores(self, images: Tensor) -> Tensor:
        """Scores (N, classes), the highest for the likeliest class."""


@dataclass(frozen=True, kw_only=True)
class GeneratorTraining:
    """How to train a generator.

    Args:
        iterations: steps of Adam.
        per_class: images of each class in a step.
        learning_rate: of the first part of the run.
        steady: the share of the run before the learning rate falls, along a cosine, to 0.
        betas: the decay rates of Adam.
        seed: of latent vectors; the initial weights are the caller's.
    """

    iterations: int = 500
    per_class: int = 20
    learning_rate: float = 3e-3
    steady: float = 0.5
    betas: tuple[float, float] = (0.5, 0.95)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.per_class < 1:
            raise ConfigError("A generator needs at least one iteration and one image per class.")
        if not (self.learning_rate > 0 and 0 <= self.steady <= 1):
            raise ConfigError("The learning rate must be above 0, its steady share from 0 to 1.")

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        progress = step / self.iterations
        if progress < self.steady:
            return self.learning_rate
        fallen = (progress - self.steady) / (1 - self.steady)
        return self.learning_rate * (1 + math.cos(math.pi * fallen)) / 2


def train_generator(
    generator: nn.Module,
    matching: Matching,
    config: GeneratorTraining,
    *,
    latent: int,
    num_classes: int,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
    beside: Sequence[Stateful] = (),
) -> None:
    """Train a generator in place. Latent vectors depend on the seed and the step alone.

    Args:
        generator: from latent vectors and labels to images.
        matching: the loss of its images and labels.
        config: how long, how fast and on how many images.
        latent: the length of a latent vector.
        num_classes: the number of classes, which all get equally many images.
        on_step: called with the number of steps done and the loss.
        checkpoint: keeps the state, from which a killed training goes on to the same end.
        beside: other objects whose state changes with steps, by way of `on_step`.
    """
    generator.train()
    adam = torch.optim.Adam(
        generator.parameters(), lr=config.learning_rate, betas=config.betas, fused=True
    )
    device = next(generator.parameters()).device
    labels = torch.arange(num_classes, device=device).repeat_interleave(config.per_class)
    things = [each for each in (matching, *beside) if isinstance(each, Stateful)]
    kept = None if checkpoint is None else checkpoint.kept()
    first = 0 if kept is None else _restored(kept, generator, adam, things)
    for step in range(first, config.iterations):
        noise = _latents(len(labels), latent, config.seed, step).to(device)
        loss = matching(generator(noise, labels), labels)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(f"The distance is {value} in step {step}: lower the learning rate.")
        for group in adam.param_groups:
            group["lr"] = config.rate(step)
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        if on_step is not None:
            on_step(step + 1, value)
        if checkpoint is not None:
            checkpoint.passed(partial(_state, step + 1, generator, adam, things))


def _state(
    step: int, generator: nn.Module, adam: torch.optim.Optimizer, things: Sequence[Stateful]
) -> dict[str, Tensor]:
    found = {"step": torch.tensor(step)}
    found |= {f"generator/{name}": each for name, each in generator.state_dict().items()}
    found |= {f"adam/{name}": each for name, each in adam_state(adam).items()}
    for number, thing in enumerate(things):
        found |= {f"{number}/{name}": each for name, each in thing.state().items()}
    return found


def _restored(
    kept: Mapping[str, Tensor],
    generator: nn.Module,
    adam: torch.optim.Optimizer,
    things: Sequence[Stateful],
) -> int:
    """Put everything back as it was kept; return the number of steps that are done."""
    device = next(generator.parameters()).device
    state = {name: each.to(device) for name, each in kept.items()}
    generator.load_state_dict(under("generator/", state))
    restore_adam(adam, under("adam/", kept))
    for number, thing in enumerate(things):
        thing.restore(under(f"{number}/", state))
    return int(kept["step"])


def sampled(generator: nn.Module, labels: Tensor, *, latent: int, seed: int) -> NDArray[np.uint8]:
    """Draw images (N, H, W, C) for labels; the same for the same seed."""
    return np.concatenate(
        [to_pixels(each) for each in made_of(generator, labels, latent=latent, seed=seed)]
    )


def made_of(generator: nn.Module, labels: Tensor, *, latent: int, seed: int) -> Iterator[Tensor]:
    """Yield a generator's outputs for labels, in batches; the same for the same seed."""
    generator.eval()
    device = next(generator.parameters()).device
    for batch, some in enumerate(torch.split(labels.to(device), _BATCH)):
        with torch.no_grad():
            yield generator(_latents(len(some), latent, seed, batch).to(device), some)


def agreed(
    generator: nn.Module, labels: Tensor, judge: Judge, *, latent: int, seed: int
) -> NDArray[np.uint8]:
    """Draw images for labels until a judge assigns each one to its label; a few may stay wrong.

    Images between two classes teach a classifier nothing but doubt, and released moments tell which
    those are.
    """
    images = sampled(generator, labels, latent=latent, seed=seed)
    wrong = _wrong(images, labels, judge)
    for attempt in range(1, _MOST_ATTEMPTS):
        if not len(wrong):
            break
        again = seed + attempt * _APART
        images[wrong] = sampled(generator, labels[wrong], latent=latent, seed=again)
        wrong = wrong[_wrong(images[wrong], labels[wrong], judge)]
    return images


def _wrong(images: NDArray[np.uint8], labels: Tensor, judge: Judge) -> NDArray[np.int64]:
    batches = torch.split(torch.from_numpy(images), _BATCH)
    found = torch.cat([judge.scores(batch).argmax(1) for batch in batches]).cpu()
    return np.flatnonzero((found != labels.cpu()).numpy())


def refined(
    images: NDArray[np.uint8],
    labels: Tensor,
    matching: Matching,
    config: PixelOptimisation,
    *,
    seed: int,
) -> NDArray[np.uint8]:
    """Optimise the pixels of a batch of images further; the same for the same seed."""
    start = to_float(torch.from_numpy(images).to(labels.device))
    return to_pixels(optimised(start, labels, matching, config, generator=keyed(seed)))


def _latents(count: int, size: int, seed: int, number: int) -> Tensor:
    return torch.randn(count, size, generator=keyed(seed, number))
