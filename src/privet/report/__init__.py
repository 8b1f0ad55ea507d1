"""One self-contained HTML page for a run, or for several beside each other."""

from privet.report.charts import Curve
from privet.report.page import comparison, page
from privet.report.story import (
    Attacks,
    Bar,
    Fact,
    Figure,
    Measure,
    Privacy,
    Samples,
    Story,
    Table,
)

__all__ = [
    "Attacks",
    "Bar",
    "Curve",
    "Fact",
    "Figure",
    "Measure",
    "Privacy",
    "Samples",
    "Story",
    "Table",
    "comparison",
    "page",
]
