"""One self-contained HTML page for a run, or for several beside each other."""

from privet.report.charts import Curve
from privet.report.page import comparison, page
from privet.report.story import Bar, Fact, Figure, Measure, Privacy, Samples, Story

__all__ = [
    "Bar",
    "Curve",
    "Fact",
    "Figure",
    "Measure",
    "Privacy",
    "Samples",
    "Story",
    "comparison",
    "page",
]
