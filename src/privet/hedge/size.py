"""The number of private units, when nobody declares it: a small release of its own."""

import math

from privet.hedge.hedge import Hedge
from privet.hedge.mechanism import GaussianSum
from privet.hedge.summand import Count
from privet.privacy import Budget, Relation
from privet.privacy.allowance import release_sigma

SHARE = 0.01


def size_mechanism(budget: Budget, relation: Relation, share: float = SHARE) -> GaussianSum:
    """A count that takes a share of the budget, as precisions of Gaussian noise add up."""
    alone = release_sigma(budget.epsilon, budget.delta) * relation.sensitivity
    return GaussianSum(clip_norm=1.0, noise_multiplier=alone / math.sqrt(share))


def released_size(hedge: Hedge, mechanism: GaussianSum) -> float:
    """The noisy number of units, at least 1: a divisor that costs what `mechanism` costs."""
    return max(1.0, float(hedge.release(Count(), mechanism)["count"]))
