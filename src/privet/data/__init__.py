"""What comes in: readers, and class-stratified splits into private | public | test."""

from privet.data.column import Column
from privet.data.image_set import ImageSet
from privet.data.lazy import LazyImages
from privet.data.load import load
from privet.data.split import Split

__all__ = ["Column", "ImageSet", "LazyImages", "Split", "load"]
