"""How result files are read, and how a table is written: shared by all `tables_*.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
Rows = list[dict[str, Any]]


def kept(name: str) -> dict[str, Any]:
    """The whole file of a study that keeps its runs."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def runs_so_far(name: str) -> Rows:
    """Of a study that may not have begun."""
    there = (RESULTS / f"{name}.json").exists()
    return list(kept(name)["runs"]) if there else []


def results(name: str) -> dict[str, Any]:
    """The figures of a script that measures once."""
    found: dict[str, Any] = kept(name)["results"]
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(value: float | None) -> str:
    """With one decimal; nothing of nothing."""
    return "" if value is None else f"{100 * value:.1f}"


def seeds(values: list[float]) -> str:
    """One value; of several, the mean and the range."""
    if not values:
        return ""
    mean, low, high = (100 * each for each in (sum(values) / len(values), min(values), max(values)))
    return f"{mean:.1f} ({low:.1f}–{high:.1f})" if len(values) > 1 else f"{mean:.1f}"
