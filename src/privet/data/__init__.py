"""What comes in: readers, and class-stratified splits into private | public | test."""

from privet.data.column import Column
from privet.data.image_set import ImageSet
from privet.data.lazy import LazyImages
from privet.data.load import load
from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema
from privet.data.split import Split
from privet.data.table_set import TableSet
from privet.data.tables import read_table, table_of

__all__ = [
    "Binary",
    "Categorical",
    "Column",
    "Ignored",
    "ImageSet",
    "LazyImages",
    "Numeric",
    "Schema",
    "Split",
    "TableSet",
    "load",
    "read_table",
    "table_of",
]
