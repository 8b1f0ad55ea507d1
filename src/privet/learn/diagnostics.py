"""What the papers plot of private rows. Opt-in: nothing here is covered by the guarantee.

Guarantees:
    None. Each function opens the hedge's marked door by its name, which ledger and certificate then
    list; what it returns says that it is not private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import torch

from privet.errors import ConfigError, DataError
from privet.hedge import Hedge, NotPrivate, Units
from privet.learn.equation import INPUTS, TARGETS, Equation, State, units_of
from privet.learn.findings import (
    Alignment,
    Cloud,
    Clusters,
    Fit,
    Fits,
    Floats,
    GradientNorms,
    Magnitudes,
    Norms,
    Spread,
)
from privet.learn.gradients import Blocks, PrivateGradient, at_weights, combined, dot, norm
from privet.learn.objective import Examples, Objective
from privet.learn.per_unit import batches, evenly, mean_gradient, unit_gradients
from privet.learn.views import AsIs
from privet.public import PublicRows

PRIVATE = "private"
_MOST_UNITS = 256
_AT_ONCE = 256  # rows of a pass without gradients

PublicSets = Mapping[str, PublicRows]
Value = TypeVar("Value")


def gradient_norms(
    hedge: Hedge,
    equation: Equation,
    state: State,
    *,
    clip_norm: float,
    public: PublicSets | None = None,
    max_units: int = _MOST_UNITS,
) -> NotPrivate[GradientNorms]:
    """Norms of per-unit gradients before and after clipping, by set of rows (IDS Fig. 3b, 6).

    What is clipped is s ⊙ g_i − o at the perturbed weights, as in a step.

    Args:
        hedge: what holds the private rows.
        equation: its model, views and loss.
        state: the weights, and the step whose views are drawn.
        clip_norm: C.
        public: other rows to look at, by name.
        max_units: how many units of each set, taken evenly from all.
    """
    _check(max_units, public)
    if not 0 < clip_norm < math.inf:
        raise ConfigError(f"The clip norm must be above 0, not {clip_norm:g}.")

    slots = equation.slots(state)
    objective = equation.objective(slots.weights, state.step, slots.scale, slots.origin)

    def look(units: Units) -> Norms:
        return _norms(_rows(objective, evenly(units, max_units)), clip_norm)

    return hedge.outside_guarantee(
        "gradient norms", lambda private: GradientNorms(clip_norm, by_set(look, private, public))
    )


def alignment(
    hedge: Hedge,
    equation: Equation,
    state: State,
    *,
    gradient: PrivateGradient,
    physical_batch: int = 64,
) -> NotPrivate[Alignment]:
    """Compare a step's private gradient with that without clip and noise (DOPE-SGD Fig. 2).

    The latter is the mean gradient of all private rows, times the scale if there is one.

    Args:
        hedge: what holds the private rows.
        equation: its model, views and loss.
        state: the weights that the step started from.
        gradient: what the step found.
        physical_batch: units in memory at a time.
    """
    if physical_batch < 1:
        raise ConfigError(f"The physical batch must be at least 1, not {physical_batch}.")

    scale = equation.slots(state).scale

    def look(units: Units) -> Alignment:
        objective = equation.objective((state.weights,), state.step)
        mean = mean_gradient(objective, units, physical_batch)
        if scale is not None:
            mean = combined(torch.mul, mean, scale)
        product, one, other = dot(gradient.blocks, mean), norm(gradient.blocks), norm(mean)
        cosine = product / (one * other) if one * other > 0 else math.nan
        return Alignment(cosine, product, one, other)

    return hedge.outside_guarantee("alignment with the mean gradient", look)


def gradient_magnitudes(
    hedge: Hedge,
    equation: Equation,
    state: State,
    *,
    bins: int = 50,
    max_units: int = _MOST_UNITS,
) -> NotPrivate[Magnitudes]:
    """Each parameter's mean |gradient| over private units, before clipping (DP-Mix Fig. 2)."""
    _check(max_units, None)
    if bins < 1:
        raise ConfigError(f"A histogram needs at least one bin, not {bins}.")

    def look(units: Units) -> Magnitudes:
        gradients = _gradients(equation, state, evenly(units, max_units))
        mean = _mean(combined(torch.abs, gradient) for gradient in gradients)
        values = [block.flatten().cpu().numpy() for block in mean.values()]
        return _histogram(np.concatenate([np.empty(0), *values]), bins)

    return hedge.outside_guarantee("gradient magnitudes", look)


def gradient_clusters(
    hedge: Hedge,
    equation: Equation,
    state: State,
    *,
    classes: tuple[int, int],
    public: PublicSets | None = None,
    max_units: int = _MOST_UNITS,
) -> NotPrivate[Clusters]:
    """Directions of gradients of two classes, on the plane of their means (IDS Fig. 4, 7).

    Args:
        hedge: what holds the private rows.
        equation: its model, views and loss.
        state: the weights, and the step whose views are drawn.
        classes: two of them; a unit's is that of its first row.
        public: other rows to look at, by name.
        max_units: how many units of each class and set, taken evenly from all.
    """
    _check(max_units, public)
    if classes[0] == classes[1]:
        raise ConfigError(f"A plane needs two different classes, not {classes[0]} twice.")

    def gradients(units: Units, label: int) -> Iterable[Blocks]:
        return _gradients(equation, state, evenly(_of_class(units, label), max_units))

    def look(private: Units) -> Clusters:
        one, other = (_mean_of_class(gradients(private, label), label) for label in classes)
        axes = _plane(one, other)

        def clouds(units: Units) -> tuple[Cloud, Cloud]:
            first, second = (_cloud(gradients(units, label), axes) for label in classes)
            return first, second

        lengths = norm(one) * norm(other)
        cosine = dot(one, other) / lengths if lengths > 0 else math.nan
        return Clusters(classes, cosine, by_set(clouds, private, public))

    return hedge.outside_guarantee("gradient clusters", look)


def fits(
    hedge: Hedge,
    equation: Equation,
    state: State,
    *,
    public: PublicSets | None = None,
    max_units: int = _MOST_UNITS,
) -> NotPrivate[Fits]:
    """Loss and accuracy on private and public rows as they are (IDS Fig. 3a, 6)."""
    _check(max_units, public)

    def look(units: Units) -> Fit:
        return _fit(equation, state.weights, evenly(units, max_units))

    return hedge.outside_guarantee(
        "loss and accuracy", lambda private: Fits(by_set(look, private, public))
    )


def _check(max_units: int, public: PublicSets | None) -> None:
    if max_units < 1:
        raise ConfigError(f"At least one unit must be looked at, not {max_units}.")
    if public is not None and PRIVATE in public:
        raise ConfigError(f"Public rows cannot be called {PRIVATE!r}: give them another name.")


def by_set(
    look: Callable[[Units], Value], private: Units, public: PublicSets | None
) -> dict[str, Value]:
    """Apply `look` to private rows and to each public set; results go by name."""
    device = private.offsets.device
    others = {name: units_of(rows.to(device)) for name, rows in (public or {}).items()}
    return {name: look(units) for name, units in {PRIVATE: private, **others}.items()}


def _gradients(equation: Equation, state: State, units: Units) -> Iterator[Blocks]:
    return _rows(equation.objective((state.weights,), state.step), units)


def _rows(objective: Objective, units: Units) -> Iterator[Blocks]:
    for gradient in unit_gradients(objective, units):
        yield combined(lambda block: block[0], gradient.blocks)


def _added(total: Blocks, blocks: Blocks, weight: float = 1.0) -> Blocks:
    """Add weighted blocks to a total, in place and in double precision; empty means zero."""
    total = total or combined(lambda block: torch.zeros_like(block).double(), blocks)
    return combined(lambda sum_, block: sum_.add_(block, alpha=weight), total, blocks)


def _norms(gradients: Iterable[Blocks], clip_norm: float) -> Norms:
    lengths: list[float] = []
    plain: Blocks = {}
    clipped: Blocks = {}
    for gradient in gradients:
        lengths.append(norm(gradient))
        plain = _added(plain, gradient)
        clipped = _added(clipped, gradient, clip_norm / max(clip_norm, lengths[-1]))
    before, count = np.array(lengths), len(lengths) or math.nan
    return Norms(
        before=Spread.of(before),
        after=Spread.of(before.clip(max=clip_norm)),
        mean_before=norm(plain) / count,
        mean_after=norm(clipped) / count,
    )


def _mean(gradients: Iterable[Blocks]) -> Blocks:
    """The mean of gradients; no blocks if there are no gradients."""
    total: Blocks = {}
    count = 0
    for gradient in gradients:
        total, count = _added(total, gradient), count + 1
    return combined(lambda block: block / count, total)


def _histogram(values: Floats, bins: int) -> Magnitudes:
    some = values[values > 0]
    low, high = (some.min(), some.max()) if some.size else (1.0, 1.0)
    # One value alone still needs a bin with two edges.
    edges = np.geomspace(low, high if high > low else 2 * low, bins + 1)
    counts, _ = np.histogram(some, edges)
    mean, std = (values.mean(), values.std()) if values.size else (math.nan, math.nan)
    return Magnitudes(edges, counts, int((values == 0).sum()), float(mean), float(std))


def _of_class(units: Units, label: int) -> Units:
    return units.select(units[TARGETS][units.offsets[:-1]] == label)


def _mean_of_class(gradients: Iterable[Blocks], label: int) -> Blocks:
    mean = _mean(gradients)
    if not mean:
        raise DataError(f"No private row of class {label} was found: choose another class.")
    return mean


def _plane(one: Blocks, other: Blocks) -> tuple[Blocks, Blocks]:
    """Two orthonormal directions that span the same plane as two vectors."""
    first = _unit(one)
    along = dot(first, other)
    return first, _unit(combined(lambda a, b: b - along * a, first, other))


def _unit(blocks: Blocks) -> Blocks:
    length = norm(blocks) or 1.0
    return combined(lambda block: block / length, blocks)


def _cloud(gradients: Iterable[Blocks], axes: tuple[Blocks, Blocks]) -> Cloud:
    norms: list[float] = []
    places: list[list[float]] = []
    for gradient in gradients:
        norms.append(norm(gradient))
        places.append([dot(axis, gradient) / (norms[-1] or 1.0) for axis in axes])
    return Cloud(np.array(places).reshape(-1, 2), np.array(norms))


def _fit(equation: Equation, weights: Blocks, units: Units) -> Fit:
    """Mean loss and accuracy; each unit counts once, however many rows it has."""
    losses, hits = [], []
    with at_weights(equation.model, weights), torch.no_grad():
        for part in batches(units, _AT_ONCE):
            labels = part[TARGETS].long()
            rows = AsIs().single(Examples(part[INPUTS], labels), torch.Generator())
            outputs = equation.model(rows.inputs)
            losses.append(part.mean(equation.loss(outputs, labels).double()))
            hits.append(part.mean((outputs.argmax(1) == labels).double()))
    if not losses:
        return Fit(math.nan, math.nan)
    return Fit(float(torch.cat(losses).mean()), float(torch.cat(hits).mean()))
