"""Equation 2: from private rows to one noised sum, and what may be made of it."""

from privet.release.class_blocks import ClassBlocks, class_means
from privet.release.discriminant import MomentDiscriminant
from privet.release.embedding import Embedding, Features, mean_squares
from privet.release.lenses import Lens, Projection, Seen, taken
from privet.release.parts import Moments, Part, each_class, everyone, with_one_spread
from privet.release.targets import (
    Cleaning,
    GaussianTarget,
    class_shares,
    class_totals,
    gaussian_targets,
    released_moments,
)

__all__ = [
    "ClassBlocks",
    "Cleaning",
    "Embedding",
    "Features",
    "GaussianTarget",
    "Lens",
    "MomentDiscriminant",
    "Moments",
    "Part",
    "Projection",
    "Seen",
    "class_means",
    "class_shares",
    "class_totals",
    "each_class",
    "everyone",
    "gaussian_targets",
    "mean_squares",
    "released_moments",
    "taken",
    "with_one_spread",
]
