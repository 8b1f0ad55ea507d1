"""Per-unit gradients behind one function, and the engine that is fastest for a model here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Summand, Units
from privet.learn.calls import Unsupported, recorded
from privet.learn.gradients import trainable
from privet.learn.loop import LoopSum
from privet.learn.objective import Objective
from privet.learn.tape import TapeSum, rules_for

_MEMORY = 1 << 28  # bytes that a physical batch may take: more is no faster, caches are small
_MOST_UNITS = 256
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3}

UnitsOf = Callable[[int], Units]
"""Some units of random values: engines are chosen without looking at a row."""


class EngineName(Enum):
    """What `--engine` takes."""

    LOOP = "loop"
    BATCHED = "batched"
    GHOST = "ghost"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How gradients are taken: a matter of speed and memory alone."""

    name: EngineName
    physical_batch: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", EngineName(self.name))
        if self.physical_batch < 1:
            raise ConfigError(f"The physical batch must be at least 1, not {self.physical_batch}.")


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """An engine and why: seconds per unit of each that was tried, and what spoke against others."""

    engine: Engine
    seconds_per_unit: dict[str, float]
    reason: str

    def __str__(self) -> str:
        times = ", ".join(f"{name} {1e3 * s:.3g}" for name, s in self.seconds_per_unit.items())
        batch = self.engine.physical_batch
        return f"{self.engine.name.value} engine, {batch} at a time: {self.reason}" + (
            f" (ms per example: {times})" if times else ""
        )


def gradient_sum(objective: Objective, engine: Engine) -> Summand:
    """The clipped gradient's summand; a model that an engine cannot take goes through the loop."""
    if engine.name is EngineName.LOOP:
        return LoopSum(objective)
    try:
        return TapeSum(objective, ghost=engine.name is EngineName.GHOST)
    except Unsupported:
        return LoopSum(objective)


def plan_engine(objective: Objective, units_of: UnitsOf) -> EnginePlan:
    """The fastest engine that agrees with the loop on random inputs."""
    try:
        batch = _physical_batch(objective, units_of)
        candidates = [Engine(name=EngineName.BATCHED, physical_batch=batch)]
        if objective.linear:
            candidates.append(Engine(name=EngineName.GHOST, physical_batch=batch))
        for engine in candidates:
            _require_agreement(objective, engine, units_of(3))
    except Unsupported as reason:
        return EnginePlan(
            engine=Engine(name=EngineName.LOOP),
            seconds_per_unit={},
            reason=f"the only one, {reason}",
        )
    engines = [Engine(name=EngineName.LOOP), *candidates]
    seconds = {each.name.value: _seconds_per_unit(objective, each, units_of) for each in engines}
    best = min(engines, key=lambda each: seconds[each.name.value])
    return EnginePlan(engine=best, seconds_per_unit=seconds, reason="the fastest here")


def with_physical_batch(name: EngineName, objective: Objective, units_of: UnitsOf) -> Engine:
    """A chosen engine, with a physical batch that fits."""
    if name is EngineName.LOOP:
        return Engine(name=name)
    try:
        engine = Engine(name=name, physical_batch=_physical_batch(objective, units_of))
        _require_agreement(objective, engine, units_of(3))
    except Unsupported as reason:
        raise ConfigError(f"The {name.value} engine cannot take this model: {reason}.") from None
    return engine


def _require_agreement(objective: Objective, engine: Engine, units: Units) -> None:
    """Layers that a rule misreads, or that mix examples, show here."""
    device = units.offsets.device
    weights = torch.linspace(0.5, 1.0, len(units), dtype=torch.float64, device=device)
    # The same views for both, whatever randomness they come with.
    views = objective.views(units)
    same = _with_views(objective, lambda _: views)
    ours, loop = gradient_sum(same, engine), LoopSum(same)
    tolerance = _TOLERANCE[next(iter(objective.weights[0].values())).dtype]
    expected = loop.norms(units)
    agree = torch.allclose(ours.norms(units), expected, rtol=tolerance, atol=1e-12)
    sums, expected_sums = ours.weighted_sum(units, weights), loop.weighted_sum(units, weights)
    scale = max(float(block.abs().max()) for block in expected_sums.values())
    for name, block in expected_sums.items():
        gap = float((block.double() - sums[name].double()).abs().max())
        agree = agree and gap <= tolerance * scale
    if not agree:
        raise Unsupported("other engines do not agree with it on this model")


def _with_views(objective: Objective, views: Callable[[Units], object]) -> Objective:
    return Objective(**{**vars(objective), "views": views})


def _seconds_per_unit(objective: Objective, engine: Engine, units_of: UnitsOf) -> float:
    """The better of two, after one that warms up."""
    units = units_of(engine.physical_batch)
    weights = torch.ones(len(units), dtype=torch.float64, device=units.offsets.device)
    summand, times = gradient_sum(objective, engine), []
    for _ in range(3):
        start = time.perf_counter()
        summand.norms(units)
        summand.weighted_sum(units, weights)
        if units.offsets.is_cuda:
            torch.cuda.synchronize(units.offsets.device)
        times.append(time.perf_counter() - start)
    return min(times[1:]) / len(units)


def _physical_batch(objective: Objective, units_of: UnitsOf) -> int:
    """As many units as fit, by what the layers of one unit see and return."""
    rules = rules_for(objective.model, objective.num_views)
    views = objective.views(units_of(1))
    calls = recorded(
        objective.model,
        [rule.layer for rule in rules],
        views.inputs,
        lambda outputs: objective.loss(outputs, views.targets).sum(),
    )
    seen = sum(
        _bytes(call.inputs) + 2 * _bytes(call.outputs) for each in calls.values() for call in each
    )
    gradient = sum(_bytes(parameter) for parameter in trainable(objective.model).values())
    return max(1, min(_MOST_UNITS, _MEMORY // (seen // len(objective.weights) + gradient)))


def _bytes(tensor: Tensor | nn.Parameter) -> int:
    return tensor.numel() * tensor.element_size()
