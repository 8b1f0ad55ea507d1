"""The loop engine: one ordinary backward pass per unit, over its own views.

With many views per example it is as fast as training without privacy, it takes any module, and
its memory does not grow with the logical batch. Units of one physical batch are taken side by side
where the model allows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.hedge import Units
from privet.learn.gradients import Blocks, at_weights, squared_norm
from privet.learn.lanes import num_lanes, side_by_side
from privet.learn.leaves import Leaves
from privet.learn.objective import Examples, Objective


class LoopSum:
    """A summand that takes gradients unit by unit, by ordinary backward passes."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._kept: WeakKeyDictionary[Units, list[tuple[Tensor, ...]]] = WeakKeyDictionary()
        self._kept_leaves: dict[int, Leaves] = {}

    def zeros(self) -> Blocks:
        """A block of zeros for each parameter."""
        return self._objective.zeros()

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's gradient; gradients are kept until they are summed."""
        gradients = self._gradients(list(self._views(units)))
        self._kept[units] = gradients
        norms = [math.sqrt(squared_norm(gradient)) for gradient in gradients]
        precision = next(iter(self._objective.weights[0].values())).dtype
        return torch.tensor(norms, dtype=precision, device=units.offsets.device)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · gradient over units, in double precision if there are several."""
        gradients = self._kept.pop(units)
        names = list(self._objective.weights[0])
        first, *others = gradients
        if not others:
            return dict(zip(names, torch._foreach_mul(first, float(weights[0])), strict=True))
        total = [value.double().mul_(float(weights[0])) for value in first]
        for weight, gradient in zip(weights[1:].tolist(), others, strict=True):
            for block, value in zip(total, gradient, strict=True):
                block.add_(value, alpha=weight)
        return dict(zip(names, total, strict=True))

    def _views(self, units: Units) -> Iterator[Examples]:
        views, per_row = self._objective.views(units), self._objective.num_views
        bounds = (units.offsets * per_row).tolist()
        for start, end in pairwise(bounds):
            yield Examples(views.inputs[start:end], views.targets[start:end])

    def _gradients(self, units: list[Examples]) -> list[tuple[Tensor, ...]]:
        """Each unit's s ⊙ g − o, where g is the mean of ∇ℓ over weights and views."""
        objective, lanes = self._objective, num_lanes(self._objective.model)
        dealt = [objective.dealt_out(views) for views in units]
        totals: list[tuple[Tensor, ...]] = []
        for number, weights in enumerate(objective.weights):
            groups = [
                (groups[number], len(views)) for groups, views in zip(dealt, units, strict=True)
            ]
            with at_weights(objective.model, weights), self._leaves(number).in_place():
                found = side_by_side(partial(self._gradient, number), groups, lanes)
            # Not in place: autograd may hand out one tensor for two parameters.
            totals = list(map(torch._foreach_add, totals, found)) if totals else found
        return list(map(objective.centred, totals))

    def _gradient(self, number: int, group: tuple[Examples, int]) -> tuple[Tensor, ...]:
        views, count = group

        def loss() -> Tensor:
            outputs = self._objective.model(views.inputs)
            return self._objective.loss(outputs, views.targets).sum() / count

        return self._leaves(number).gradients(loss)

    def _leaves(self, number: int) -> Leaves:
        """The standardised weights of one perturbation, computed once and kept."""
        if number not in self._kept_leaves:
            self._kept_leaves[number] = Leaves(self._objective.model)
        return self._kept_leaves[number]
