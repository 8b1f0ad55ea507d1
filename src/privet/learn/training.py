"""The loop around equation 1: learning rates, an average of weights, and the last few weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from privet.errors import ConfigError
from privet.hedge import Steps
from privet.learn.equation import Equation, OnGradient, State
from privet.learn.gradients import Blocks, copied
from privet.learn.origins import PublicOrigin
from privet.learn.updates import Pace
from privet.optim import ExponentialAverage, Schedule

_TOO_FAST = 1e30  # single precision has no such numbers


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a run goes through its steps.

    Args:
        steps: the number of steps in the whole run.
        learning_rate: the highest one.
        schedule: the learning rate's factor over the run.
        average: how the moving average of weights is formed.
        keep_last: how many of the last weights are kept for ensembles; 0 for none.
    """

    steps: int
    learning_rate: float
    schedule: Schedule = field(default_factory=Schedule)
    average: ExponentialAverage = field(default_factory=ExponentialAverage)
    keep_last: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"A run needs at least one step, not {self.steps}.")
        if not 0 < self.learning_rate < _TOO_FAST:
            raise ConfigError(
                f"The learning rate must be above 0 and below {_TOO_FAST:g}, not "
                f"{self.learning_rate:g}."
            )
        if self.keep_last < 0:
            raise ConfigError(f"The number of weights to keep is 0 or more, not {self.keep_last}.")

    def pace(self, step: int) -> Pace:
        """The learning rate of a step and its place in the run."""
        factor = self.schedule(step, self.steps)
        return Pace(learning_rate=self.learning_rate * factor, step=step, total=self.steps)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Everything a run needs to go on, all of it private results already."""

    state: State
    average: Blocks
    ring: tuple[Blocks, ...] = ()

    @classmethod
    def start(cls, weights: Blocks) -> Progress:
        """The progress of a run before its first step."""
        return cls(state=State(weights=copied(weights)), average=copied(weights))

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        return self.state.step


class Diverged(ConfigError):  # noqa: N818 - an outcome of noise and settings
    """The weights are no longer finite, which follows from nothing but what left the hedge."""


OnStep = Callable[[Progress], None]


def train(
    equation: Equation,
    steps: Steps,
    course: Course,
    progress: Progress,
    on_step: OnStep | None = None,
    on_gradient: OnGradient | None = None,
) -> Progress:
    """Take all steps that are left, or that the reservation still pays for.

    A run that was killed may have paid for steps whose results were lost; it then ends earlier.

    Args:
        equation: what each step computes.
        steps: the hedge's steps.
        course: the number of steps and their learning rates.
        progress: where the run is now.
        on_step: called after every step.
        on_gradient: called with every private gradient, before the weights move.
    """
    while progress.step < course.steps and steps.remaining > 0:
        progress = _one_step(equation, steps, course, progress, on_gradient)
        if on_step is not None:
            on_step(progress)
    return progress


def _one_step(
    equation: Equation,
    steps: Steps,
    course: Course,
    progress: Progress,
    on_gradient: OnGradient | None,
) -> Progress:
    number = progress.step
    state = equation.step(progress.state, steps, course.pace(number), on_gradient)
    if not all(bool(torch.isfinite(block.sum())) for block in state.weights.values()):
        origin = equation.method.origin
        unlimited = isinstance(origin, PublicOrigin) and origin.limit is None
        other = ", or limit public gradients, as in --origin public:limit=1" if unlimited else ""
        raise Diverged(
            f"The weights are not finite after step {number + 1}: lower the learning rate from "
            f"{course.learning_rate:g}{other}."
        )
    average = copied(progress.average)
    course.average.update(average, state.weights, number)
    ring = progress.ring
    if course.keep_last:
        ring = (*ring, state.weights)[-course.keep_last :]
    return replace(progress, state=state, average=average, ring=ring)
