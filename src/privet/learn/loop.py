"""The loop engine: one ordinary backward pass per unit, over its own views.

With many views per example it is as fast as training without privacy, it takes any module, and
its memory does not grow with the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.hedge import Units
from privet.learn.gradients import Blocks, at_weights, squared_norm, trainable
from privet.learn.objective import Examples, Objective


class LoopSum:
    """A summand whose gradients are taken unit by unit; best with a physical batch of one."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._kept: WeakKeyDictionary[Units, list[tuple[Tensor, ...]]] = WeakKeyDictionary()

    def zeros(self) -> Blocks:
        """One block per parameter."""
        return self._objective.zeros()

    def norms(self, units: Units) -> Tensor:
        """Norms of gradients that are kept until they are summed."""
        gradients = [self._gradient(views) for views in self._views(units)]
        self._kept[units] = gradients
        norms = [math.sqrt(squared_norm(gradient)) for gradient in gradients]
        precision = next(iter(self._objective.weights[0].values())).dtype
        return torch.tensor(norms, dtype=precision, device=units.offsets.device)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """In double precision where there is more than one unit to add."""
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

    def _gradient(self, views: Examples) -> tuple[Tensor, ...]:
        """S ⊙ (mean over weights and views of ∇ℓ) − o of one unit."""
        objective = self._objective
        parameters = list(trainable(objective.model).values())
        groups = objective.dealt_out(views)
        total: tuple[Tensor, ...] = ()
        for weights, group in zip(objective.weights, groups, strict=True):
            with at_weights(objective.model, weights), torch.enable_grad():
                outputs = objective.model(group.inputs)
                loss = objective.loss(outputs, group.targets).sum() / len(views)
                found = torch.autograd.grad(loss, parameters, materialize_grads=True)
            # Not in place: autograd may hand out one tensor for two parameters.
            total = torch._foreach_add(total, found) if total else found
        return objective.centred(total)
