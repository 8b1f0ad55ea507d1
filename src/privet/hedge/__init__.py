"""The boundary that private rows never cross: units, sampling, clipping, noise."""

from privet.hedge.clipping import ClippedSum, clipped_sum
from privet.hedge.hedge import Hedge, NoisySum, NotPrivate, Steps, require_columns
from privet.hedge.helper import Dismissed, Helper
from privet.hedge.mechanism import GaussianSum, Mechanism, PoissonSum
from privet.hedge.randomness import Randomness, SecureRandomness
from privet.hedge.size import released_size, size_mechanism
from privet.hedge.summand import (
    Blocks,
    Count,
    PerRow,
    Summand,
    at_least_single,
    double_sum,
    long_norms,
)
from privet.hedge.team import Alone, Processes, Team, TeamError, assembled
from privet.hedge.units import Units

__all__ = [
    "Alone",
    "Blocks",
    "ClippedSum",
    "Count",
    "Dismissed",
    "GaussianSum",
    "Hedge",
    "Helper",
    "Mechanism",
    "NoisySum",
    "NotPrivate",
    "PerRow",
    "PoissonSum",
    "Processes",
    "Randomness",
    "SecureRandomness",
    "Steps",
    "Summand",
    "Team",
    "TeamError",
    "Units",
    "assembled",
    "at_least_single",
    "clipped_sum",
    "double_sum",
    "long_norms",
    "released_size",
    "require_columns",
    "size_mechanism",
]
