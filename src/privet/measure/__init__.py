"""Metrics of what left the hedge, on data that is not private."""

from privet.measure.accuracy import Accuracy, accuracy, predictions

__all__ = ["Accuracy", "accuracy", "predictions"]
