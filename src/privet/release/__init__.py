"""Equation 2: embeddings of private units, and what is read off their noised sums."""

from privet.release.class_blocks import ClassBlocks, class_means

__all__ = ["ClassBlocks", "class_means"]
