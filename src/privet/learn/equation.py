"""Equation 1: one private step.

    g_i = (1/K) Σ_k ∇ℓ(w + v_k ; view_k(x_i))
    g   = o + (1/b) [ Σ_{i∈B_t} clip_C( s ⊙ g_i − o )  +  N(0, σ²C² I) ]
    w   = update(w, g, public gradient)

The sum over private rows, its clip and its noise are the hedge's. Everything else here sees public
rows and weights that are already private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Steps, Summand, Units, clipped_sum
from privet.learn.drawn import DrawnOnce
from privet.learn.engine import Engine, EngineName, gradient_sum
from privet.learn.gradients import (
    Blocks,
    PrivateGradient,
    PublicGradient,
    at_weights,
    combined,
    trainable,
)
from privet.learn.keys import Keys, Purpose
from privet.learn.lanes import num_lanes, side_by_side
from privet.learn.leaves import Leaves
from privet.learn.objective import Examples, Loss, Objective, cross_entropy, of_declared
from privet.learn.origins import NoOrigin, Origin
from privet.learn.perturbations import Perturbation, Unperturbed
from privet.learn.scales import Scale, Unscaled
from privet.learn.updates import SGD, Memory, Pace, Update
from privet.learn.views import AsIs, Surroundings, Views
from privet.public import PublicRows

INPUTS, TARGETS = "images", "labels"

_JOINED = 1 << 32  # batches of joined rows, whose views must not tell those of private ones
_ROWS_PER_LANE = 16  # public rows at a time: as many as fill a core, few enough for its cache


@dataclass(frozen=True, kw_only=True)
class Method:
    """The five slots of equation 1. A published method is one way to fill them."""

    views: Views = field(default_factory=AsIs)
    perturb: Perturbation = field(default_factory=Unperturbed)
    scale: Scale = field(default_factory=Unscaled)
    origin: Origin = field(default_factory=NoOrigin)
    update: Update = field(default_factory=SGD)

    def __post_init__(self) -> None:
        if self.views.num_views % self.perturb.count:
            raise ConfigError(
                f"{self.perturb.count} weight perturbations must divide the "
                f"{self.views.num_views} views of an example."
            )

    @property
    def needs_public_gradient(self) -> bool:
        """Whether a step takes a gradient of public rows."""
        slots = (self.perturb, self.scale, self.origin, self.update)
        return any(slot.needs_public for slot in slots)

    @property
    def needs_public(self) -> bool:
        """Whether a step looks at public rows at all."""
        return self.needs_public_gradient or self.views.needs_public


@dataclass(frozen=True, kw_only=True)
class State:
    """All that one step hands to the next: every part of it is a private result already."""

    weights: Blocks
    step: int = 0
    scale: Blocks = field(default_factory=dict)
    origin: Blocks = field(default_factory=dict)
    update: Memory = field(default_factory=dict)


OnGradient = Callable[[State, PrivateGradient], None]


@dataclass(frozen=True, kw_only=True)
class Slots:
    """What a step knows before it looks at a private row.

    Args:
        weights: w + v for every perturbation v.
        public: the public gradient, scaled; `None` where the method needs none.
        scale: s; `None` for 1.
        origin: o in scaled coordinates; `None` for 0.
        seen: the memory of the scale after this step.
    """

    weights: tuple[Blocks, ...]
    public: PublicGradient | None
    scale: Blocks | None
    origin: Blocks | None
    seen: Blocks


@dataclass(frozen=True, kw_only=True)
class Equation:
    """Everything in equation 1 that stays the same from step to step.

    Args:
        model: any module that treats each example by itself.
        method: how the five slots are filled.
        divisor: b, the expected number of rows in a step, joined public ones included.
        num_classes: the number of classes of the targets.
        keys: randomness outside the hedge.
        engine: how gradients are taken.
        public: rows for gradients and mixing.
        public_batch: rows in each public gradient.
        joined: public rows that join the private batch, each at the same rate ("extended").
        loss: from outputs and targets to one number per view.
    """

    model: nn.Module
    method: Method
    divisor: float
    num_classes: int
    keys: Keys
    engine: Engine
    public: PublicRows | None = None
    public_batch: int = 64
    joined: PublicRows | None = None
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        if self.method.needs_public and self.public is None:
            raise ConfigError("This method needs public data: give some, or choose other slots.")
        if not 0 < self.divisor < math.inf:
            raise ConfigError(f"The expected batch size must be above 0, not {self.divisor:g}.")
        if self.public_batch < 1:
            raise ConfigError(f"The public batch must be at least 1, not {self.public_batch}.")

    def step(
        self,
        state: State,
        steps: Steps,
        pace: Pace,
        on_gradient: OnGradient | None = None,
    ) -> State:
        """Take one private step; return the state after it.

        Args:
            state: where the last step left off.
            steps: the hedge's steps, which own clip, noise and sampling.
            pace: the learning rate and the place of the step in the run.
            on_gradient: called with the state before the step and g, before the weights move.
        """
        slots, method, t = self.slots(state), self.method, state.step
        objective = self.objective(slots.weights, t, slots.scale, slots.origin)
        summand = gradient_sum(objective, self.engine)
        total = steps.step(summand).blocks
        if self.joined is not None:
            total = combined(torch.add, total, self._joined_sum(summand, steps, t))
        mean = combined(lambda block: block.div_(self.divisor), total)  # nobody else has it
        g = PrivateGradient(_around(slots.origin, mean))

        if on_gradient is not None:
            on_gradient(state, g)
        w, memory = method.update.apply(state.weights, g, slots.public, state.update, pace)
        origin = method.origin.remember(state.origin, g)
        return State(weights=w, step=t + 1, scale=slots.seen, origin=origin, update=memory)

    def slots(self, state: State) -> Slots:
        """Fill the slots of a step, from public rows and from results that are private already."""
        method, t = self.method, state.step
        gradients = self.public_gradients(state.weights, t)
        public = _mean(gradients)
        seen = method.scale.learn(state.scale, public)
        s = method.scale.scale(seen, public)
        if public is not None and s is not None:
            public = PublicGradient(combined(torch.mul, s, public.blocks))
        around = self.keys.generator(Purpose.PERTURBATION, t)
        return Slots(
            weights=method.perturb.perturbed(state.weights, gradients, around),
            public=public,
            scale=s,
            origin=method.origin.origin(state.origin, public),
            seen=seen,
        )

    def objective(
        self,
        weights: tuple[Blocks, ...],
        step: int = 0,
        scale: Blocks | None = None,
        origin: Blocks | None = None,
    ) -> Objective:
        """The objective whose per-unit gradients a step takes."""
        draws: dict[int, torch.Generator] = {}

        def draw(units: Units) -> Examples:
            if units.number not in draws:  # parts of one batch continue its draws
                draws.clear()
                draws[units.number] = self.keys.generator(Purpose.VIEWS, step, units.number)
            around = Surroundings(self.num_classes, draws[units.number], self.public)
            return self.method.views(Examples(units[INPUTS], units[TARGETS].long()), around)

        num_views = self.method.views.num_views
        return Objective(
            model=self.model,
            loss=of_declared(self.loss, self.num_classes),
            views=DrawnOnce(draw, num_views),
            num_views=num_views,
            weights=weights,
            scale=scale,
            origin=origin,
        )

    def public_gradients(self, weights: Blocks, step: int) -> tuple[PublicGradient, ...]:
        """Gradients of public rows: one per perturbation that needs its own, else one in all."""
        if self.public is None or not self.method.needs_public_gradient:
            return ()
        count = self.method.perturb.count if self.method.perturb.needs_public else 1
        generator = self.keys.generator(Purpose.PUBLIC_BATCH, step)
        rows = self.public.sample(count * self.public_batch, generator)
        views = self.method.views.single(Examples(rows.inputs, rows.targets), generator)
        with at_weights(self.model, weights):
            return tuple(self._public_gradient(batch) for batch in views.split(self.public_batch))

    def _public_gradient(self, views: Examples) -> PublicGradient:
        """The gradient of the mean loss over some public views.

        A few rows go to each core where the loop engine takes units side by side.
        """
        leaves = Leaves(self.model)

        def gradient(part: Examples) -> tuple[Tensor, ...]:
            def loss() -> Tensor:
                return self.loss(self.model(part.inputs), part.targets).sum() / len(views)

            return leaves.gradients(loss)

        side = self.engine.name is EngineName.LOOP and self.engine.physical_batch > 1
        lanes = num_lanes(self.model) if side else 1
        with leaves.in_place():
            parts = views.split(_ROWS_PER_LANE if lanes > 1 else len(views))
            total = reduce(torch._foreach_add, side_by_side(gradient, parts, lanes))
        return PublicGradient(dict(zip(trainable(self.model), total, strict=True)))

    def _joined_sum(self, summand: Summand, steps: Steps, step: int) -> Blocks:
        """Sum joined public rows, sampled and clipped like private ones, without further noise."""
        assert self.joined is not None
        generator = self.keys.generator(Purpose.JOINING, step)
        rate, clip = steps.mechanism.sampling_rate, steps.mechanism.clip_norm
        sampled = torch.rand(len(self.joined), generator=generator) < rate
        rows = self.joined.select(sampled.nonzero().flatten())
        size = self.engine.physical_batch
        parts = zip(torch.split(rows.inputs, size), torch.split(rows.targets, size), strict=True)
        batches = (
            units_of(PublicRows(inputs, targets), _JOINED + number)
            for number, (inputs, targets) in enumerate(parts)
            if len(inputs)
        )
        exact = clipped_sum(batches, summand, clip)
        # In the precision of what they are added to, so that weights keep theirs.
        return combined(lambda block, zero: block.to(zero.dtype), exact, summand.zeros())


def units_of(rows: PublicRows, number: int = 0) -> Units:
    """Public rows as a batch of units of one row each; `number` is the place of the batch."""
    columns = {INPUTS: rows.inputs, TARGETS: rows.targets}
    return Units(columns, torch.arange(len(rows) + 1, device=rows.inputs.device), number)


def random_rows(
    shape: tuple[int, ...], num_classes: int, count: int, *, pixels: bool, words: bool = False
) -> PublicRows:
    """Make random rows of the right shape and type, to try a model on."""
    rng = np.random.default_rng(0)
    if words:
        drawn = torch.from_numpy(rng.integers(0, num_classes, (2, count, *shape)))
        return PublicRows(drawn[0], drawn[1])
    labels = torch.from_numpy(rng.integers(0, num_classes, count))
    if pixels:
        return PublicRows(torch.from_numpy(rng.integers(0, 256, (count, *shape), np.uint8)), labels)
    values = rng.standard_normal((count, *shape)).astype(np.float32)
    return PublicRows(torch.from_numpy(values), labels)


def _mean(gradients: tuple[PublicGradient, ...]) -> PublicGradient | None:
    if not gradients:
        return None
    first, *others = (gradient.blocks for gradient in gradients)
    if not others:
        return gradients[0]
    return PublicGradient(combined(lambda *blocks: torch.stack(blocks).mean(0), first, *others))


def _around(origin: Blocks | None, blocks: Mapping[str, torch.Tensor]) -> Blocks:
    return dict(blocks) if origin is None else combined(torch.add, origin, blocks)
