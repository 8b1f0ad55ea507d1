"""Per-unit gradients behind one function, and the engine that is fastest for a model here."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Summand, Units
from privet.learn.calls import Calls, Unsupported, recorded
from privet.learn.gradients import Blocks, combined, trainable
from privet.learn.lanes import num_lanes
from privet.learn.loop import LoopSum
from privet.learn.objective import Examples, Objective
from privet.learn.tape import AnyRule, TapeSum, may_ghost, rules_for

_MEMORY = 3 << 27  # bytes that a physical batch may take: more is no faster, caches are small
_MOST_UNITS = 256
_ROUNDS = 3
_SHARE_OF_MEMORY = 8  # of the machine's memory, that units side by side may take: an eighth
_TURNS = 2  # units for each core in a physical batch of the loop: cores wait at its end
_SHAKE = 0.1  # standard deviation of what is added to weights, to compare engines there too
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3}

UnitsOf = Callable[[int], Units]
"""Some units of random values: engines are chosen without looking at a row."""


class EngineName(Enum):
    """The ways to take per-unit gradients, as `--engine` names them."""

    LOOP = "loop"
    BATCHED = "batched"
    GHOST = "ghost"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How per-unit gradients are taken: it decides speed and memory, never the result."""

    name: EngineName
    physical_batch: int = 1

    def __str__(self) -> str:
        loop, batch = self.name is EngineName.LOOP, self.physical_batch
        return f"{self.name.value} of {batch}" if loop and batch > 1 else self.name.value

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", EngineName(self.name))
        if self.physical_batch < 1:
            raise ConfigError(f"The physical batch must be at least 1, not {self.physical_batch}.")


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """The chosen engine, why it was chosen, and the seconds per unit of each that was tried."""

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
    """The summand of per-unit gradients; models that an engine cannot take go through the loop."""
    if engine.name is EngineName.LOOP:
        return LoopSum(objective)
    try:
        return TapeSum(objective, ghost=engine.name is EngineName.GHOST)
    except Unsupported:
        return LoopSum(objective)


def plan_engine(objective: Objective, units_of: UnitsOf) -> EnginePlan:
    """Choose the fastest engine that agrees with the loop on random inputs."""
    try:
        names = [EngineName.BATCHED, *[EngineName.GHOST] * objective.linear]
        others = [_sized(name, objective, units_of) for name in names]
        for engine in others:
            _require_agreement(objective, engine, units_of(3))
    except Unsupported as reason:
        return EnginePlan(
            engine=Engine(name=EngineName.LOOP),
            seconds_per_unit={},
            reason=f"the only one, {reason}",
        )
    best, seconds = _fastest(objective, [*_loops(objective, units_of), *others], units_of)
    return EnginePlan(engine=best, seconds_per_unit=seconds, reason="the fastest here")


def with_physical_batch(name: EngineName, objective: Objective, units_of: UnitsOf) -> Engine:
    """Give the named engine a physical batch that fits the memory."""
    if name is EngineName.LOOP:
        return _fastest(objective, _loops(objective, units_of), units_of)[0]
    try:
        engine = _sized(name, objective, units_of)
        _require_agreement(objective, engine, units_of(3))
    except Unsupported as reason:
        raise ConfigError(f"The {name.value} engine cannot take this model: {reason}.") from None
    return engine


def _require_agreement(objective: Objective, engine: Engine, units: Units) -> None:
    """Refuse an engine that disagrees with the loop on these units.

    It does where a rule misreads a layer, or a layer mixes examples. Behind weights that begin at
    zero neither would show, so both are compared at weights nearby as well.
    """
    # The same views for both, whatever randomness they come with.
    views = objective.views(units)
    try:
        with _doubled(objective.model):
            agree = _agree_around(_in_double(objective, views), engine, units)
    except (RuntimeError, TypeError):  # a model, or a device, that insists on its precision
        agree = _agree_around(_with(objective, views=lambda _: views), engine, units)
    if not agree:
        raise Unsupported("other engines do not agree with it on this model")


def _agree_around(objective: Objective, engine: Engine, units: Units) -> bool:
    """Whether engines agree at the weights that are given, and at weights nearby."""
    return all(_agree(each, engine, units) for each in (objective, _shaken(objective)))


def _shaken(objective: Objective) -> Objective:
    """The objective at other weights: what is zero at first does not stay so."""
    generator = torch.Generator().manual_seed(0)

    def shaken(block: Tensor) -> Tensor:
        noise = torch.randn(block.shape, generator=generator, dtype=torch.float64)
        return block + _SHAKE * noise.to(block)

    weights = tuple(combined(shaken, blocks) for blocks in objective.weights)
    return _with(objective, weights=weights)


def _agree(objective: Objective, engine: Engine, units: Units) -> bool:
    device = units.offsets.device
    weights = torch.linspace(0.5, 1.0, len(units), dtype=torch.float64, device=device)
    ours, loop = gradient_sum(objective, engine), LoopSum(objective)
    tolerance = _TOLERANCE[next(iter(objective.weights[0].values())).dtype]
    agree = torch.allclose(ours.norms(units), loop.norms(units), rtol=tolerance, atol=1e-12)
    sums, expected = ours.weighted_sum(units, weights), loop.weighted_sum(units, weights)
    scale = max(float(block.abs().max()) for block in expected.values())
    gaps = [(block.double() - sums[name].double()).abs().max() for name, block in expected.items()]
    return agree and float(max(gaps)) <= tolerance * scale


@contextmanager
def _doubled(model: nn.Module) -> Iterator[None]:
    """Put a model into double precision for a while.

    No rounding then sends a value to the other side of a ReLU's kink. It is done in place, since
    closures of a copy would still see the original.
    """
    tensors = [each for each in (*model.parameters(), *model.buffers()) if each.is_floating_point()]
    before = [each.data for each in tensors]
    try:
        for each in tensors:
            each.data = each.data.double()
        yield
    finally:
        for each, data in zip(tensors, before, strict=True):
            each.data = data


def _in_double(objective: Objective, views: Examples) -> Objective:
    def double(blocks: Blocks | None) -> Any:
        return None if blocks is None else combined(lambda block: block.detach().double(), blocks)

    exact = Examples(_double(views.inputs), _double(views.targets))
    return _with(
        objective,
        views=lambda _: exact,
        weights=tuple(map(double, objective.weights)),
        scale=double(objective.scale),
        origin=double(objective.origin),
    )


def _double(values: Tensor) -> Tensor:
    return values.double() if values.is_floating_point() else values


def _with(objective: Objective, **changes: Any) -> Objective:
    return Objective(**{**vars(objective), **changes})


def _loops(objective: Objective, units_of: UnitsOf) -> list[Engine]:
    """The loop engine with one unit at a time and, where the model allows it, a few per core."""
    single, lanes = Engine(name=EngineName.LOOP), num_lanes(objective.model)
    if lanes == 1:
        return [single]
    try:
        fitting = (
            _memory() // _SHARE_OF_MEMORY // _bytes_per_unit(EngineName.LOOP, objective, units_of)
        )
    except Unsupported:  # what its layers see is not known, nor how much memory they take
        return [single]
    units = min(_TURNS * lanes, fitting)
    return [single, Engine(name=EngineName.LOOP, physical_batch=units)] if units > 1 else [single]


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _fastest(
    objective: Objective, engines: Sequence[Engine], units_of: UnitsOf
) -> tuple[Engine, dict[str, float]]:
    """The engine with the fewest seconds per unit, and the seconds of all.

    Engines take turns over some rounds, and the best round of each counts, since others may use the
    machine as well.
    """
    best = {str(engine): math.inf for engine in engines}
    for _ in range(_ROUNDS if len(engines) > 1 else 0):
        for engine in engines:
            seconds = _seconds(objective, engine, units_of(engine.physical_batch))
            best[str(engine)] = min(best[str(engine)], seconds)
    return min(engines, key=lambda each: best[str(each)]), best


def _seconds(objective: Objective, engine: Engine, units: Units) -> float:
    """Seconds that an engine takes for one unit.

    A loop of one unit is run several times, so that its figure is no more disturbed than a batch's.
    """
    times = 8 if engine.physical_batch == 1 else 1
    weights = torch.ones(len(units), dtype=torch.float64, device=units.offsets.device)
    summand = gradient_sum(objective, engine)
    start = time.perf_counter()
    for _ in range(times):
        batch = replace(units)  # another one, whose views are drawn as in a step
        summand.norms(batch)
        summand.weighted_sum(batch, weights)
    if units.offsets.is_cuda:
        torch.cuda.synchronize(units.offsets.device)
    return (time.perf_counter() - start) / (times * len(units))


def _sized(name: EngineName, objective: Objective, units_of: UnitsOf) -> Engine:
    """The named engine, with as many units in a physical batch as fit."""
    fitting = _MEMORY // _bytes_per_unit(name, objective, units_of)
    return Engine(name=name, physical_batch=max(1, min(_MOST_UNITS, fitting)))


def _bytes_per_unit(name: EngineName, objective: Objective, units_of: UnitsOf) -> int:
    """Bytes of a unit's layer inputs, outputs and errors, and of gradients that are written out."""
    rules = rules_for(objective.model, objective.num_views)
    views = objective.views(units_of(1))
    calls = recorded(
        objective.model,
        [rule.layer for rule in rules],
        views.inputs,
        lambda outputs: objective.loss(outputs, views.targets).sum(),
    )
    seen = sum(
        _bytes(call.inputs) + 2 * _bytes(call.gradient)  # an output is as large as its gradient
        for each in calls.values()
        for call in each
        if call.gradient is not None
    )
    ghost = name is EngineName.GHOST and may_ghost(objective, rules)
    written = _written(rules, calls) if ghost else set(trainable(objective.model))
    parameters = trainable(objective.model).items()
    gradient = sum(_bytes(parameter) for key, parameter in parameters if key in written)
    return max(1, seen // len(objective.weights) + gradient)


def _written(rules: Sequence[AnyRule], calls: Calls) -> set[str]:
    """The parameters whose per-unit gradients a ghost engine still writes out."""
    without_norms = [rule for rule in rules if rule.squared_norms(calls[rule.layer]) is None]
    return {name for rule in without_norms for name in rule.names.values()}


def _bytes(tensor: Tensor | nn.Parameter) -> int:
    return tensor.numel() * tensor.element_size()
