"""After the hedge: what anyone may do with a synthetic data set or a private model."""

from privet.share.classifier import Classifier, Prediction
from privet.share.classifying import ClassifierTraining, train_classifier
from privet.share.synthetic_set import SyntheticSet
from privet.share.table_classifier import TableClassifier
from privet.share.word_model import WordModel

__all__ = [
    "Classifier",
    "ClassifierTraining",
    "Prediction",
    "SyntheticSet",
    "TableClassifier",
    "WordModel",
    "train_classifier",
]
