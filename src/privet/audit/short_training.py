"""Whole short trainings of a linear model, many times, with and without one row.

What is compared is the sum of all private gradients, from behind the update: whatever equation 1
adds to what leaves the hedge, such as an origin, is audited with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from privet.audit.findings import Finding
from privet.audit.many_runs import Outputs
from privet.audit.mechanisms import WORDS, Neighbour, Pair, Rows, judged
from privet.audit.trials import Terms
from privet.errors import ConfigError
from privet.hedge import Hedge, PoissonSum
from privet.learn import EngineName
from privet.learn.engine import Engine
from privet.learn.equation import INPUTS, TARGETS, Equation, State
from privet.learn.gradients import PrivateGradient, trainable
from privet.learn.keys import Keys
from privet.learn.training import Course, Progress, train
from privet.models import MLP
from privet.privacy import PLD, Plan, PoissonSteps, noise_multiplier
from privet.public import PublicRows
from privet.recipes.presets import METHODS

_CLIP, _EXPECTED = 1.0, 2.0
_RATE = 1e-6  # so small that the row is as wrong in the last step as in the first
_WITH_PLAIN_VIEWS = ("dp-sgd", "dope", "mirror", "adadps")


@dataclass(frozen=True, kw_only=True)
class ShortTrainingAudit:
    """An audit of a method of `privet train` by many short trainings on points of a plane.

    Args:
        method: the name of a method that looks at rows as they are.
        steps: the number of steps of each training.
        sampling_rate: the rate at which a row joins a step.
        neighbour: the row that is there or not.
        runs: the number of trainings with the row, and of trainings without.
    """

    method: str = "dp-sgd"
    steps: int = 4
    sampling_rate: float = 1.0
    neighbour: Neighbour = Neighbour.ADDED
    runs: int = 1000

    def __post_init__(self) -> None:
        if self.method not in _WITH_PLAIN_VIEWS:
            raise ConfigError(
                f"Short trainings are of points, which {self.method!r} has no views of: choose "
                f"{', '.join(_WITH_PLAIN_VIEWS)}."
            )
        _ = self.plan_at(1.0)

    @property
    def subject(self) -> str:
        """What is audited, in words."""
        return (
            f"{self.method}, {self.steps} steps at rate {self.sampling_rate:g} of a linear model, "
            f"a row {WORDS[self.neighbour]}"
        )

    def plan_at(self, sigma: float, runs: int = 1) -> Plan:
        """The plan of one training, or of several, at a noise multiplier."""
        steps = PoissonSteps(
            sampling_rate=self.sampling_rate, noise_multiplier=sigma, steps=self.steps * runs
        )
        return Plan.of(steps)


def audit_short_training(audit: ShortTrainingAudit, terms: Terms) -> Finding:
    """Train many times on two neighbouring data sets of a row or two."""
    sigma = noise_multiplier(audit.plan_at, terms.budget, terms.relation, PLD())
    pair = Pair.of(audit.neighbour, terms.relation)
    run = partial(_trainings, audit, terms, sigma)
    return judged(audit.subject, pair, run, audit.runs, audit.plan_at, terms)


def _trainings(
    audit: ShortTrainingAudit, terms: Terms, sigma: float, rows: Rows, count: int, first: int
) -> Iterator[Outputs]:
    columns = {INPUTS: rows["x"], TARGETS: rows["labels"]}
    mechanism = PoissonSum(
        clip_norm=_CLIP, noise_multiplier=sigma, sampling_rate=audit.sampling_rate
    )
    for start in range(0, count, terms.runs_together):
        together = min(terms.runs_together, count - start)
        with terms.ample_ledger() as ledger:
            reservation = ledger.reserve(plan=audit.plan_at(sigma, together))
            hedge = Hedge(columns, reservation, randomness=terms.noise_of(first + start))
            steps = hedge.steps(mechanism)
            for _ in range(together):
                equation, seen = _equation(audit), _Seen()
                course = Course(steps=audit.steps, learning_rate=_RATE)
                begin = Progress.start(dict(trainable(equation.model)))
                train(equation, steps, course, begin, on_gradient=seen)
                yield equation.divisor * seen.total


def _equation(audit: ShortTrainingAudit) -> Equation:
    model = MLP(2, (), 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return Equation(
        model=model,
        method=METHODS[audit.method](),
        divisor=_EXPECTED,
        num_classes=2,
        keys=Keys(0),
        engine=Engine(name=EngineName.LOOP),
        public=PublicRows(torch.tensor([[8.0, 6.0], [-8.0, 6.0]]), torch.tensor([0, 1])),
    )


class _Seen:
    """A callback that adds up all private gradients of a training."""

    total: Outputs

    def __init__(self) -> None:
        self.total = np.zeros(1)

    def __call__(self, state: State, gradient: PrivateGradient) -> None:
        self.total = self.total + _flat(gradient.blocks)


def _flat(blocks: dict[str, Tensor]) -> Outputs:
    """All numbers of a gradient, and the differences between both classes, where rows pull."""
    rows = [blocks[name].double().reshape(2, -1).numpy() for name in sorted(blocks)]
    return np.concatenate([*map(np.ravel, rows), *(one - other for one, other in rows)])
