"""Metrics of what left the hedge, on data that is not private."""

from privet.measure.accuracy import Accuracy, accuracy, predictions
from privet.measure.curvature import Curvature, curvature
from privet.measure.sets import (
    frechet_distance,
    inception_score,
    memorisation,
    nearest,
    precision_and_recall,
)

__all__ = [
    "Accuracy",
    "Curvature",
    "accuracy",
    "curvature",
    "frechet_distance",
    "inception_score",
    "memorisation",
    "nearest",
    "precision_and_recall",
    "predictions",
]
