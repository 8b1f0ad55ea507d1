"""ε of Poisson-subsampled steps by dp_accounting's privacy loss distributions."""

import math
from typing import TYPE_CHECKING

from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant

from privet.errors import PrivacyError
from privet.privacy import gaussian
from privet.privacy.budget import Relation
from privet.privacy.events import PoissonSteps
from privet.privacy.translation import translated

if TYPE_CHECKING:
    from privet.privacy.accountants import Composition

# How fine the grid of privacy losses is. Any value gives a valid bound (the discretisation is
# pessimistic); these keep it close to the limit and the arrays within memory.
_GRID_PER_DEVIATION = 0.05
_MOST_POINTS_PER_STEP = 2e5
_MOST_POINTS = 1e6
_COARSEST_INTERVAL = 1.0
# What rounding may take from δ at each step: dp_accounting composes by fast Fourier transforms and
# does not count it. Against exact Gaussians it was 1.4e-17 at most.
_ROUNDING_PER_STEP = 2.0**-52

# dp_accounting's PLD accountant doubles the sensitivity for REPLACE_ONE itself.
_RELATIONS = {
    Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


def epsilon(composition: "Composition", delta: float, relation: Relation) -> float:
    """The ε of composed events, from a privacy loss distribution on one grid.

    The grid is fine enough for the narrowest event and no larger than memory allows.
    """
    interval = _grid_interval(composition, relation)
    if interval > _COARSEST_INTERVAL:  # next to no noise: sampling hardly helps, a valid bound
        precisions = (steps.steps / steps.noise_multiplier**2 for steps in composition.poisson)
        sigma = (composition.gaussian_precision + sum(precisions)) ** -0.5
        return gaussian.epsilon(sigma / relation.sensitivity, delta)
    accountant = PLDAccountant(_RELATIONS[relation], interval)
    accountant.compose(translated(composition))
    rounding = _ROUNDING_PER_STEP * sum(steps.steps for steps in composition.poisson)
    if rounding > delta / 2:
        raise PrivacyError(_too_small(delta))
    return _resolved(float(accountant.get_epsilon(delta - rounding)), delta)


def _grid_interval(composition: "Composition", relation: Relation) -> float:
    reach = relation.sensitivity
    sigmas = [steps.noise_multiplier for steps in composition.poisson]
    if composition.gaussian_precision > 0:
        sigmas.append(composition.gaussian_sigma)
    deviations = [_deviation(steps, reach) for steps in composition.poisson]
    mean = sum(steps.steps * _mean_loss(steps, reach) for steps in composition.poisson)
    return max(
        _GRID_PER_DEVIATION * min(1.0, *deviations),
        _largest_loss(min(sigmas) / reach) / _MOST_POINTS_PER_STEP,
        mean / _MOST_POINTS,
    )


def _deviation(steps: PoissonSteps, reach: int) -> float:
    """About the standard deviation of one step's privacy loss: the root of its χ² divergence."""
    exponent = min(steps.noise_multiplier**-2, 50.0)
    return reach * steps.sampling_rate * math.sqrt(math.expm1(exponent))


def _mean_loss(steps: PoissonSteps, reach: int) -> float:
    """The smaller of two upper bounds on one step's mean privacy loss."""
    unamplified = (reach / steps.noise_multiplier) ** 2 / 2
    return min(_deviation(steps, reach) ** 2, steps.sampling_rate * unamplified)


def _largest_loss(sigma: float) -> float:
    """The privacy loss of an outcome twelve standard deviations out."""
    return (12 * sigma + 0.5) / sigma**2


def _resolved(epsilon: float, delta: float) -> float:
    if math.isinf(epsilon):
        raise PrivacyError(_too_small(delta))
    return epsilon


def _too_small(delta: float) -> str:
    return (
        f"δ = {delta:g} is smaller than privacy loss distributions resolve here: "
        "choose a larger δ, or the RDP accountant."
    )
