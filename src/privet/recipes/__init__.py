"""One short file per system, composed from the rooms."""

from privet.recipes.class_means import private_class_means

__all__ = ["private_class_means"]
