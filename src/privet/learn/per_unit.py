"""Gradients of single units, and their exact mean: for diagnostics outside the guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from privet.hedge import Units
from privet.learn.gradients import Blocks, PerUnitGradients, at_weights, combined, norm, trainable
from privet.learn.loop import LoopSum
from privet.learn.objective import Objective


def unit_gradients(objective: Objective, units: Units) -> Iterator[PerUnitGradients]:
    """Yield the gradient of each unit, one at a time so that memory does not grow.

    Gradients that are not finite are left out.
    """
    summand, once = LoopSum(objective), torch.ones(1, dtype=torch.float64)
    for unit in batches(units, 1):
        summand.norms(unit)
        gradient = summand.weighted_sum(unit, once)
        if math.isfinite(norm(gradient)):
            yield PerUnitGradients(combined(lambda block: block[None], gradient))


def mean_gradient(objective: Objective, units: Units, size: int) -> Blocks:
    """(1/n) Σ_i g_i at the first weights, by ordinary passes over `size` units at a time."""
    parameters = trainable(objective.model)
    total = {name: torch.zeros_like(value).double() for name, value in objective.weights[0].items()}
    for part in batches(units, size):
        views = objective.views(part)
        with at_weights(objective.model, objective.weights[0]), torch.enable_grad():
            losses = objective.loss(objective.model(views.inputs), views.targets)
            per_row = torch.unflatten(losses, 0, (-1, objective.num_views)).mean(1)
            loss = part.mean(per_row).sum() / len(units)
            found = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
        for name, gradient in zip(parameters, found, strict=True):
            total[name] += gradient
    return total


def batches(units: Units, size: int) -> Iterator[Units]:
    """Yield all units in order, `size` at a time."""
    numbers = torch.arange(len(units), device=units.offsets.device)
    for first in range(0, len(units), size):
        yield units.select((numbers >= first) & (numbers < first + size))


def evenly(units: Units, count: int) -> Units:
    """Choose at most `count` units, evenly spaced, since rows may lie sorted by class."""
    total, device = len(units), units.offsets.device
    keep = torch.zeros(total, dtype=torch.bool, device=device)
    count = min(count, total)
    keep[torch.arange(count, device=device) * total // max(1, count)] = True
    return units.select(keep)
