"""Steps that any room may take: averages of weights, schedules, directions to perturb weights."""

from privet.optim.directions import asam_direction, random_direction, sam_direction
from privet.optim.ema import ExponentialAverage, update_average
from privet.optim.schedule import Schedule, constant, cosine
from privet.optim.sharpness import Sharpness

__all__ = [
    "ExponentialAverage",
    "Schedule",
    "Sharpness",
    "asam_direction",
    "constant",
    "cosine",
    "random_direction",
    "sam_direction",
    "update_average",
]
