"""The number of private units, when nobody declares it: a small release of its own."""

import math

from privet.hedge.hedge import Hedge
from privet.hedge.mechanism import GaussianSum
from privet.hedge.summand import Count
from privet.privacy import Budget, Relation
from privet.privacy.allowance import release_sigma

SHARE = 0.01


def size_mechanism(budget: Budget, relation: Relation, share: float = SHARE) -> GaussianSum:
    """The mechanism of a released count that takes a given share of the budget.

    The share is one of precisions, which add up for Gaussian noise.
    """
    alone = release_sigma(budget.epsilon, budget.delta) * relation.sensitivity
    return GaussianSum(clip_norm=1.0, noise_multiplier=alone / math.sqrt(share))


def released_size(hedge: Hedge, mechanism: GaussianSum) -> float:
    """Release the noisy number of units, at least 1: a divisor, paid for as `mechanism` says."""
    return max(1.0, float(hedge.release(Count(), mechanism)["count"]))
