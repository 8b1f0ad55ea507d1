"""ε of Poisson-subsampled steps by dp_accounting's privacy loss distributions."""

import math
from typing import TYPE_CHECKING

from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant

from privet.privacy import gaussian
from privet.privacy.budget import Relation
from privet.privacy.events import PoissonSteps

if TYPE_CHECKING:
    from privet.privacy.accountants import Composition

# How fine the grid of privacy losses is. Any value gives a valid bound (the discretisation is
# pessimistic); these keep it within about 0.1% of the limit and the arrays within memory.
_GRID_PER_DEVIATION = 0.05
_MOST_POINTS_PER_STEP = 2e5
_MOST_POINTS = 1e6
_COARSEST_INTERVAL = 1.0

# dp_accounting's PLD accountant doubles the sensitivity for REPLACE_ONE itself.
_RELATIONS = {
    Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


def epsilon(composition: "Composition", delta: float, relation: Relation) -> float:
    """Compose on one grid, fine enough for the narrowest event."""
    interval = min(_grid_interval(steps, relation) for steps in composition.poisson)
    if composition.gaussian_precision > 0:
        widest = _largest_loss(composition.gaussian_sigma / relation.sensitivity)
        interval = max(interval, widest / _MOST_POINTS_PER_STEP)
    if interval > _COARSEST_INTERVAL:  # next to no noise: sampling hardly helps, a valid bound
        precisions = (steps.steps / steps.noise_multiplier**2 for steps in composition.poisson)
        sigma = (composition.gaussian_precision + sum(precisions)) ** -0.5
        return gaussian.epsilon(sigma / relation.sensitivity, delta)
    accountant = PLDAccountant(_RELATIONS[relation], interval)
    if composition.gaussian_precision > 0:
        accountant.compose(GaussianDpEvent(composition.gaussian_sigma))
    for steps in composition.poisson:
        step = PoissonSampledDpEvent(
            steps.sampling_rate, GaussianDpEvent(float(steps.noise_multiplier))
        )
        accountant.compose(SelfComposedDpEvent(step, steps.steps))
    return float(accountant.get_epsilon(delta))


def _grid_interval(steps: PoissonSteps, relation: Relation) -> float:
    """A fraction of one step's deviation of privacy loss, bounded by what memory should hold."""
    rate, sigma, reach = steps.sampling_rate, steps.noise_multiplier, relation.sensitivity
    squared_deviation = (reach * rate) ** 2 * math.expm1(min(sigma**-2, 50.0))
    mean_loss = min(squared_deviation, rate * (reach / sigma) ** 2 / 2)  # bounds one step's KL
    return max(
        _GRID_PER_DEVIATION * math.sqrt(min(squared_deviation, 1.0)),
        _largest_loss(sigma / reach) / _MOST_POINTS_PER_STEP,
        steps.steps * mean_loss / _MOST_POINTS,
    )


def _largest_loss(sigma: float) -> float:
    """The privacy loss twelve standard deviations out."""
    return (12 * sigma + 0.5) / sigma**2
