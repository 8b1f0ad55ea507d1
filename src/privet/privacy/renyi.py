"""Rényi differential privacy: dp_accounting's accountant, taught the replace-one relation.

That library's RDP accountant ignores the relation for Gaussian events, and refuses Poisson
sampling under replace-one. Here a replaced unit moves a sum by up to twice the clip norm, and the
subsampled case is the divergence of the pair its PLD accountant uses,
(1−q)·N(0, σ²) + q·N(±1, σ²), which dominates all others (proved in docs/accounting.md).
"""

import contextlib
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy.special import logsumexp

from privet.privacy.accountants import DEFAULT_ORDERS, compose
from privet.privacy.allowance import PER_SUM
from privet.privacy.budget import Relation
from privet.privacy.events import PoissonSteps, Selection
from privet.privacy.selection import Curve, best_of
from privet.privacy.translation import translated

if TYPE_CHECKING:
    from privet.privacy.accountants import Composition

_TAIL = 12.0  # standard deviations
_LEAST_AMPLIFIED_SIGMA = 0.2


def epsilon(
    composition: "Composition", delta: float, relation: Relation, orders: tuple[float, ...]
) -> float:
    """The best ε over the given orders."""
    with _quiet():
        return float(compute_epsilon(orders, _curve(composition, relation, orders), delta)[0])


def _curve(composition: "Composition", relation: Relation, orders: tuple[float, ...]) -> Curve:
    """Rényi divergences of all events together, at each order."""
    accountant = _accountant(relation, orders)
    accountant.compose(translated(composition))
    found: Curve = accountant.rdp
    for each in composition.selections:
        found = found + each.count * selection_curve(each.times(1), relation, orders)
    return found


@lru_cache(maxsize=256)
def selection_curve(selection: Selection, relation: Relation, orders: tuple[float, ...]) -> Curve:
    """Rényi divergences of the best of a random number of trials.

    Which candidate a trial took is drawn without a look at any row, and is told: a trial's
    divergence is at most that of its worst candidate. Other orders than those asked for help to
    bound what the choice among trials costs.
    """
    wide = tuple(sorted({*DEFAULT_ORDERS, *orders}))
    curves = [_trial_curve(each, relation, wide) for each in selection.candidates]
    found = best_of(selection.trials, np.array(wide), np.max(curves, axis=0))
    return np.array([found[wide.index(order)] for order in orders])


@lru_cache(maxsize=1024)
def _trial_curve(steps: PoissonSteps, relation: Relation, orders: tuple[float, ...]) -> Curve:
    """Rényi divergences of one candidate, its noise possibly on a grid.

    A grid changes probabilities by factors of e^±a, and so a divergence by the amount added here.
    """
    with _quiet():
        exact = _curve(compose((steps,)), relation, orders)
    alpha, a = np.array(orders), steps.steps * PER_SUM / 2
    known = np.isfinite(exact)
    # Divergences rise with their order; numerical errors that say otherwise are taken upwards.
    rising = np.maximum.accumulate(np.where(known, np.maximum(exact, 0.0), 0.0))
    return np.where(known, rising + a * (2 * alpha - 1) / (alpha - 1), np.inf)


def _accountant(relation: Relation, orders: tuple[float, ...]) -> RdpAccountant:
    if relation is Relation.ADD_REMOVE:
        return RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
    return _ReplaceOneAccountant(orders, NeighboringRelation.REPLACE_ONE)


class _ReplaceOneAccountant(RdpAccountant):  # type: ignore[misc]
    """The library's accountant with both kinds of event at twice the sensitivity."""

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        if isinstance(event, GaussianDpEvent):
            event = GaussianDpEvent(event.noise_multiplier / 2)
        elif isinstance(event, PoissonSampledDpEvent):
            if do_compose:
                rate, sigma = event.sampling_probability, event.event.noise_multiplier
                self._rdp += count * replace_one_curve(rate, sigma, tuple(self._orders))
            return None
        return super()._maybe_compose(event, count, do_compose)


@lru_cache(maxsize=256)
def replace_one_curve(rate: float, sigma: float, orders: tuple[float, ...]) -> Curve:
    """Rényi divergences of one Poisson-subsampled Gaussian step under replace-one."""
    unamplified: Curve = np.asarray(orders) * 2 / sigma**2
    if sigma < _LEAST_AMPLIFIED_SIGMA:  # so little noise that sampling hardly helps: a valid bound
        return unamplified
    amplified = np.array([_replace_one_divergence(rate, sigma, order) for order in orders])
    return np.asarray(np.minimum(unamplified, np.maximum(amplified, 0.0)))


def _replace_one_divergence(rate: float, sigma: float, order: float) -> float:
    """Evaluate log ∫ P^α Q^(1−α) / (α−1) by the trapezoidal rule, here of geometric accuracy."""
    # Q vanishes at imaginary part πσ²: the step stays well below that and below σ.
    step = min(sigma, sigma**2) / 8
    x = np.arange(-1 - _TAIL * sigma, 2 * order - 1 + _TAIL * sigma, step)
    log_zero = np.log1p(-rate) - 0.5 * (x / sigma) ** 2
    log_p = np.logaddexp(log_zero, np.log(rate) - 0.5 * ((x - 1) / sigma) ** 2)
    log_q = np.logaddexp(log_zero, np.log(rate) - 0.5 * ((x + 1) / sigma) ** 2)
    log_normaliser = np.log(step / sigma) - 0.5 * np.log(2 * np.pi)
    log_moment = logsumexp(order * log_p + (1 - order) * log_q) + log_normaliser
    return float(log_moment / (order - 1))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's notes on orders that it leaves out; leaving one out is safe."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
