"""Metrics of what left the hedge, on data that is not private."""

from privet.measure.accuracy import Accuracy, accuracy, logits, predictions
from privet.measure.confidence import Calibration, ConfidenceBin, calibration
from privet.measure.curvature import Curvature, curvature
from privet.measure.kernels import (
    KernelDistance,
    kernel_distance,
    mean_discrepancy,
    median_distance,
)
from privet.measure.perplexity import Perplexity, perplexity
from privet.measure.sets import (
    density_and_coverage,
    frechet_distance,
    inception_score,
    memorisation,
    nearest,
    precision_and_recall,
)

__all__ = [
    "Accuracy",
    "Calibration",
    "ConfidenceBin",
    "Curvature",
    "KernelDistance",
    "Perplexity",
    "accuracy",
    "calibration",
    "curvature",
    "density_and_coverage",
    "frechet_distance",
    "inception_score",
    "kernel_distance",
    "logits",
    "mean_discrepancy",
    "median_distance",
    "memorisation",
    "nearest",
    "perplexity",
    "precision_and_recall",
    "predictions",
]
