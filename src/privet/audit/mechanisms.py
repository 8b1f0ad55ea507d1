"""The hedge's own mechanisms, many times, with and without one row: the worst that can be added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import torch
from torch import Tensor

from privet.audit.findings import Finding
from privet.audit.gauge import NoiseFound
from privet.audit.many_runs import Arms, Outputs, many_runs_bound
from privet.audit.tails import PlanAt
from privet.audit.trials import Terms
from privet.errors import ConfigError
from privet.hedge import GaussianSum, Hedge, NoisySum, PoissonSum, Units
from privet.privacy import PLD, GaussianRelease, Plan, PoissonSteps, Relation, noise_multiplier
from privet.release import ClassBlocks

_CLIP = 1.0
_FAR = 1e3  # clip norms

Rows = dict[str, Tensor]
Run = Callable[[Rows, int, int], Iterator[Outputs]]
"""All outputs of so many runs on the given rows, the first of them with a number."""


class Neighbour(Enum):
    """The kinds of row that an audit adds, or puts in the place of another."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    MISLABELLED = "mislabelled"
    NOT_A_NUMBER = "nan"


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets, which a guarantee says look alike."""

    without: Rows
    with_row: Rows

    @classmethod
    def of(cls, neighbour: Neighbour, relation: Relation) -> Pair:
        """Data sets as far apart as can be, for a kind of row.

        One has a row, far beyond the clip norm for instance; the other has none, or its opposite.
        """
        long = (_FAR, 0.0)
        base, row, other = {
            Neighbour.ADDED: ([], (long, 0), ((-_FAR, 0.0), 0)),
            Neighbour.DUPLICATE: ([(long, 0)], (long, 0), ((-_FAR, 0.0), 0)),
            Neighbour.MISLABELLED: ([(long, 0)], (long, 1), (long, 0)),
            Neighbour.NOT_A_NUMBER: ([(long, 0)], ((math.nan, 0.0), 0), (long, 0)),
        }[neighbour]
        without = base if relation is Relation.ADD_REMOVE else [*base, other]
        return cls(_rows(without), _rows([*base, row]))


@dataclass(frozen=True, kw_only=True)
class MechanismAudit:
    """An audit of one mechanism of the hedge, by many runs.

    Args:
        sampling_rate: the rate of a Poisson step; `None` for a release over all rows.
        neighbour: the row that is there or not.
        runs: the number of runs with the row, and of runs without.
    """

    sampling_rate: float | None = None
    neighbour: Neighbour = Neighbour.ADDED
    runs: int = 3000

    def __post_init__(self) -> None:
        if self.runs < 36:
            raise ConfigError(f"An audit of many runs needs 36 of either kind, not {self.runs}.")

    @property
    def subject(self) -> str:
        """What is audited, in words."""
        kind = "one Gaussian release"
        if self.sampling_rate is not None:
            kind = f"one Poisson step at rate {self.sampling_rate:g}"
        return f"{kind}, a row {WORDS[self.neighbour]}"

    def plan_at(self, sigma: float) -> Plan:
        """The plan of one run at a noise multiplier."""
        if self.sampling_rate is None:
            return Plan.of(GaussianRelease(noise_multiplier=sigma))
        return Plan.of(
            PoissonSteps(sampling_rate=self.sampling_rate, noise_multiplier=sigma, steps=1)
        )


WORDS = {
    Neighbour.ADDED: "far beyond the clip norm",
    Neighbour.DUPLICATE: "that is there already",
    Neighbour.MISLABELLED: "with another row's label",
    Neighbour.NOT_A_NUMBER: "that is not a number",
}


def audit_mechanism(audit: MechanismAudit, terms: Terms) -> Finding:
    """Run a mechanism many times on two neighbouring data sets of a row or two."""
    sigma = noise_multiplier(audit.plan_at, terms.budget, terms.relation, PLD())
    pair = Pair.of(audit.neighbour, terms.relation)
    run = partial(_runs, audit, terms, sigma)
    return judged(audit.subject, pair, run, audit.runs, audit.plan_at, terms)


def judged(subject: str, pair: Pair, run: Run, runs: int, plan_at: PlanAt, terms: Terms) -> Finding:
    """Run a recipe on both data sets, and see how well the outputs can be told apart."""
    found = []
    for place, rows in enumerate((pair.without, pair.with_row)):
        outputs = []
        for output in run(rows, runs, place * runs):
            outputs.append(output)
            terms.on_trial(place * runs + len(outputs), 2 * runs)
        found.append(np.stack(outputs))
    arms = Arms(*found)
    bounds = [
        many_runs_bound(arms, terms.budget.delta, error, plan_at, terms.relation)
        for error in terms.errors
    ]
    bound, alarm = bounds
    routes = {_ANY: bound.epsilon, _CURVE: bound.curve_epsilon}
    return Finding(
        subject=terms.named(subject),
        claim=terms.claim,
        route=max(routes, key=lambda name: routes[name]),
        evidence=f"{runs:,} runs with the row and {runs:,} without",
        confidence=terms.confidence,
        bound=bound.best,
        alarm=alarm.best,
        alarm_claim=terms.claim,
        others=routes,
        noise=_repeated(arms),
    )


_ANY = "error rates at δ (Clopper-Pearson)"
_CURVE = "the plan's trade-off curve (Clopper-Pearson)"


def _repeated(arms: Arms) -> NoiseFound | None:
    """Missing noise, if an output came twice: noise was used twice, or there is none."""
    if all(len(np.unique(each, axis=0)) == len(each) for each in arms):
        return None
    return NoiseFound("the difference of two runs", share=0.0, p_value=0.0)


def _runs(
    audit: MechanismAudit, terms: Terms, sigma: float, rows: Rows, count: int, first: int
) -> Iterator[Outputs]:
    for start in range(0, count, terms.runs_together):
        together = min(terms.runs_together, count - start)
        plan = Plan(tuple(each.times(together) for each in audit.plan_at(sigma).events))
        with terms.ample_ledger() as ledger:
            noise = terms.noise_of(first + start)
            hedge = Hedge(rows, ledger.reserve(plan=plan), randomness=noise)
            run = _run(hedge, sigma, audit.sampling_rate)
            for _ in range(together):
                yield np.concatenate([block.numpy().ravel() for block in run().blocks.values()])


def _run(hedge: Hedge, sigma: float, sampling_rate: float | None) -> Callable[[], NoisySum]:
    blocks = ClassBlocks(features=_features, size=2, num_classes=2, count_scale=0.1)
    if sampling_rate is None:
        release = GaussianSum(clip_norm=_CLIP, noise_multiplier=sigma)
        return partial(hedge.release, blocks, release)
    step = PoissonSum(clip_norm=_CLIP, noise_multiplier=sigma, sampling_rate=sampling_rate)
    return partial(hedge.steps(step).step, blocks)


def _features(units: Units) -> Tensor:
    return units["x"]


def _rows(pairs: list[tuple[tuple[float, float], int]]) -> Rows:
    points = torch.tensor([point for point, _ in pairs], dtype=torch.float32).reshape(-1, 2)
    return {"x": points, "labels": torch.tensor([label for _, label in pairs], dtype=torch.int64)}
