"""What private training is given: every setting, and the rows that are not private."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch

from privet.errors import ConfigError
from privet.learn.engine import EngineName
from privet.learn.equation import Method
from privet.learn.objective import Loss, cross_entropy
from privet.learn.training import Course
from privet.optim import ExponentialAverage, Schedule
from privet.public import PublicRows, WarmUp


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of private training, decided before a private row is read.

    Args:
        method: the slots of equation 1; DP-SGD if they are left as they are.
        sampling_rate: the probability with which each row joins a step.
        epochs: passes over the private rows on average; steps = epochs / rate.
        clip_norm: C, the longest that a gradient may be.
        learning_rate: the learning rate at its highest.
        schedule: how the learning rate changes.
        ema_decay: decay of the moving average of weights, which is what is kept.
        keep_last: how many of the last weights are kept for ensembles.
        public_batch: rows in each public gradient.
        warm_up: training on public rows beforehand; None for none.
        synthetic_warm_up: whether the warm-up sees synthetic rows beside real ones.
        extended: the share of public rows that join private batches.
        engine: how gradients are taken; None chooses by a short timing.
        seed: the seed of all randomness that is public.
    """

    method: Method = field(default_factory=Method)
    sampling_rate: float
    epochs: float
    clip_norm: float = 1.0
    learning_rate: float = 1.0
    schedule: Schedule = field(default_factory=Schedule)
    ema_decay: float = 0.9999
    keep_last: int = 0
    public_batch: int = 64
    warm_up: WarmUp | None = None
    synthetic_warm_up: bool = False
    extended: float = 0.0
    engine: EngineName | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.sampling_rate <= 1:
            raise ConfigError(f"The sampling rate must lie in (0, 1], not {self.sampling_rate:g}.")
        if not 0 < self.epochs < math.inf:
            raise ConfigError(f"The number of epochs must be above 0, not {self.epochs:g}.")
        if self.public_batch < 1:
            raise ConfigError(f"The public batch must be at least 1, not {self.public_batch}.")
        if not 0 <= self.extended <= 1:
            raise ConfigError(
                f"The share of public rows that join must lie in [0, 1], not {self.extended:g}."
            )
        _ = self.course

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return max(1, round(self.epochs / self.sampling_rate))

    @property
    def course(self) -> Course:
        """How a run goes through its steps."""
        return Course(
            steps=self.steps,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            average=ExponentialAverage(decay=self.ema_decay),
            keep_last=self.keep_last,
        )


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a run works on besides private rows: shapes are public, and so are these rows.

    Args:
        input_shape: the shape of one input, as it lies behind the hedge.
        num_classes: how many classes the private rows have.
        public: public rows, with inputs of the same kind; None if there are none.
        synthetic: rows of the private classes that were made of public ones; wherever public rows
            serve a step, these do too.
        public_classes: how many classes the public rows have; None if they are the private ones.
        pixels: whether inputs are bytes.
        words: whether inputs are sequences of word numbers, and so are targets.
        loss: the loss of private steps, one number per view, from logits and targets.
    """

    input_shape: tuple[int, ...]
    num_classes: int
    public: PublicRows | None = None
    synthetic: PublicRows | None = None
    public_classes: int | None = None
    pixels: bool = True
    words: bool = False
    loss: Loss = cross_entropy

    @cached_property
    def same_classes(self) -> PublicRows | None:
        """Public and synthetic rows of the private classes; None if there are none."""
        kinds = list(self.by_kind.values())
        if len(kinds) < 2:
            return kinds[0] if kinds else None
        return PublicRows(
            torch.cat([each.inputs for each in kinds]), torch.cat([each.targets for each in kinds])
        )

    @property
    def by_kind(self) -> dict[str, PublicRows]:
        """Rows of the private classes that are real (`public`) or `synthetic`, if there are any."""
        real = self.public if self.public_classes is None else None
        kinds = {"public": real, "synthetic": self.synthetic}
        return {name: rows for name, rows in kinds.items() if rows is not None}

    def warming(self, config: TrainingConfig) -> PublicRows | None:
        """The rows of the private classes that a warm-up sees."""
        return self.same_classes if config.synthetic_warm_up else self.by_kind.get("public")
