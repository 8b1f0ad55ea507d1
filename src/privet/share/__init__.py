"""After the hedge: what anyone may do with a synthetic data set."""

from privet.share.classifying import ClassifierTraining, train_classifier

__all__ = ["ClassifierTraining", "train_classifier"]
