"""`--diagnostics`: what papers plot of private rows, looked at outside the guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from privet.hedge import Hedge, NotPrivate, Units
from privet.learn import PrivateGradient, State
from privet.learn.diagnostics import (
    PublicSets,
    alignment,
    by_set,
    fits,
    gradient_magnitudes,
    gradient_norms,
)
from privet.learn.equation import INPUTS, TARGETS, Equation
from privet.learn.findings import Curvatures, Sharpness
from privet.learn.gradients import Blocks, at_weights, trainable
from privet.learn.objective import Examples
from privet.learn.per_unit import batches, evenly
from privet.learn.views import AsIs
from privet.measure import Curvature, curvature
from privet.recipes.training import TrainingStart, equation_for
from privet.runs.run_folder import DIAGNOSTICS, RunFolder
from privet.runs.train_stage import Stage

_WARNING = "NOT PRIVATE: computed from private rows outside the guarantee. Do not share."
_MOST_LOOKS = 10
_CURVED_ROWS = 256  # of each set, in some fifty products of two gradients each
_AT_ONCE = 64
_EIGENVALUES = 5
_PROBES = 10


class Diagnostics:
    """Looks at private rows about ten times in a run, if the run was asked to."""

    def __init__(self, hedge: Hedge, stage: Stage, start: TrainingStart, folder: RunFolder) -> None:
        self._hedge, self._stage, self._start, self._folder = hedge, stage, start, folder
        self._every = -(-stage.config.training.steps // _MOST_LOOKS)
        self._forget_from(start.progress.step)

    def __call__(self, state: State, gradient: PrivateGradient | None = None) -> None:
        """Look at private rows, if it is time: before a step uses its gradient, or at the end.

        At the end there is no gradient.
        """
        last = gradient is None
        if not self._stage.config.diagnostics or (state.step % self._every and not last):
            return
        found = {"not_private": _WARNING}
        if self._folder.has(DIAGNOSTICS):
            found = self._folder.read(DIAGNOSTICS)
        if str(state.step) not in found:
            looked = {each.name: each.value.to_json() for each in self._look(state, gradient)}
            self._folder.write(DIAGNOSTICS, found | {str(state.step): looked})

    def _forget_from(self, step: int) -> None:
        """Drop what was seen of steps that were lost."""
        if not self._folder.has(DIAGNOSTICS):
            return
        found = self._folder.read(DIAGNOSTICS)
        kept = {name: each for name, each in found.items() if not _at_least(name, step)}
        self._folder.write(DIAGNOSTICS, kept)

    def _look(self, state: State, gradient: PrivateGradient | None) -> list[NotPrivate[Any]]:
        training = self._stage.config.training
        equation = self._equation()
        public = self._stage.material.by_kind or None
        found: list[NotPrivate[Any]] = [
            gradient_norms(
                self._hedge, equation, state, clip_norm=training.clip_norm, public=public
            ),
            gradient_magnitudes(self._hedge, equation, state),
            fits(self._hedge, equation, state, public=public),
        ]
        if gradient is not None:
            found.append(alignment(self._hedge, equation, state, gradient=gradient))
        else:
            found.append(curvatures(self._hedge, equation, state, public=public))
        return found

    def _equation(self) -> Equation:
        stage, start = self._stage, self._start
        return equation_for(
            stage.network,
            stage.config.training,
            stage.material,
            stage.keys,
            start.divisor,
            start.engine.engine,
        )


def curvatures(
    hedge: Hedge, equation: Equation, state: State, *, public: PublicSets | None = None
) -> NotPrivate[Curvatures]:
    """How sharp the loss is around the weights, on a few rows of each set (IDS Table 4)."""

    def look(units: Units) -> Sharpness:
        return _sharpness(equation, state.weights, evenly(units, _CURVED_ROWS))

    return hedge.outside_guarantee(
        "curvature", lambda private: Curvatures(by_set(look, private, public))
    )


def _sharpness(equation: Equation, weights: Blocks, units: Units) -> Sharpness:
    with at_weights(equation.model, weights):
        found = _curvature(equation, units)
    return Sharpness(units.num_rows, found.eigenvalues, found.ratio, found.trace, found.trace_error)


def _curvature(equation: Equation, units: Units) -> Curvature:
    """Curvature on rows as they are, without views; unknown if there are no rows."""
    size = sum(each.numel() for each in trainable(equation.model).values())
    count = min(_EIGENVALUES, size - 1)
    if not len(units):
        return Curvature.unknown(count)

    def rows() -> Iterator[tuple[Tensor, Tensor]]:
        for part in batches(units, _AT_ONCE):
            seen = AsIs().single(Examples(part[INPUTS], part[TARGETS].long()), torch.Generator())
            yield seen.inputs, seen.targets

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return equation.loss(outputs, targets).mean()

    return curvature(equation.model, loss, rows, count=count, probes=_PROBES)


def _at_least(name: str, step: int) -> bool:
    return name.isdecimal() and int(name) >= step
