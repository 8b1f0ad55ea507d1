"""From a private release to images: everything here is post-processing, free to repeat."""

from privet.synthesis.gaussians import gaussian_kl
from privet.synthesis.generating import (
    GeneratorTraining,
    agreed,
    refined,
    sampled,
    train_generator,
)
from privet.synthesis.matching import GaussianMatching, InTurn, Matching, MeanMatching
from privet.synthesis.pixels import PixelOptimisation, optimised

__all__ = [
    "GaussianMatching",
    "GeneratorTraining",
    "InTurn",
    "Matching",
    "MeanMatching",
    "PixelOptimisation",
    "agreed",
    "gaussian_kl",
    "optimised",
    "refined",
    "sampled",
    "train_generator",
]
