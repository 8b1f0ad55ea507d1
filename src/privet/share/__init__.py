"""After the hedge: what anyone may do with a synthetic data set or a private model."""

from privet.share.classifier import Classifier, Prediction
from privet.share.classifying import ClassifierTraining, train_classifier
from privet.share.synthetic_set import SyntheticSet

__all__ = [
    "Classifier",
    "ClassifierTraining",
    "Prediction",
    "SyntheticSet",
    "train_classifier",
]
