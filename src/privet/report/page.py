"""From stories to HTML. Everything is inside the page: it needs no network and runs no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from privet import __version__
from privet.report.charts import Curve, line_chart
from privet.report.story import Bar, Fact, Story


def page(story: Story) -> str:
    """The HTML page of one run."""
    return _template("page.html").render(story=story, version=__version__)


def comparison(stories: Sequence[Story]) -> str:
    """The HTML page that compares several runs."""
    return _template("comparison.html").render(
        stories=stories,
        cautions=_cautions(stories),
        columns=list(dict.fromkeys(each.name for story in stories for each in story.figures)),
        budgets=_budgets(stories),
        curves=_together(stories),
        version=__version__,
    )


def _cautions(stories: Sequence[Story]) -> list[str]:
    """Reasons why figures of these runs may not be compared."""
    found = []
    for name in ("δ", "relation", "unit of privacy"):
        values = {_fact(each.privacy.facts, name) for each in stories} - {None}
        if len(values) > 1:
            found.append(f"The runs differ in their {name}: their ε do not mean the same.")
    tests = {each.classes_note for each in stories} - {""}
    if len(tests) > 1:
        found.append("The runs were tested on different images, or by different classifiers.")
    return found


@dataclass(frozen=True)
class _Budget:
    """What runs reserved of one owner's budget."""

    note: str
    bars: tuple[Bar, ...]


def _budgets(stories: Sequence[Story]) -> list[_Budget]:
    """One budget for each ledger, however many runs draw on it; bars of these runs stand out."""
    found: dict[tuple[str, ...], list[tuple[Bar, ...]]] = {}
    notes: dict[tuple[str, ...], str] = {}
    for each in (story.privacy for story in stories):
        if each.budget:
            key = tuple(bar.name for bar in each.budget)
            found.setdefault(key, []).append(each.budget)
            notes.setdefault(key, each.budget_note)
    return [
        _Budget(
            notes[key],
            tuple(
                replace(bars[0], own=any(bar.own for bar in bars))
                for bars in zip(*same, strict=True)
            ),
        )
        for key, same in found.items()
    ]


def _fact(facts: Sequence[Fact], name: str) -> str | None:
    return next((each.value for each in facts if each.name == name), None)


def _together(stories: Sequence[Story]) -> list[Curve]:
    """Charts that each hold the curves of one title, a line for each run."""
    found: dict[str, Curve] = {}
    for story in stories:
        for curve in story.curves:
            first = found.setdefault(curve.title, _without_lines(curve))
            for line in curve.lines.values():
                first.lines[story.name] = line
    return list(found.values())


def _without_lines(curve: Curve) -> Curve:
    return replace(curve, lines={}, limit=None)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,  # class names and paths are whatever someone typed
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"chart": line_chart, "picture": _picture}
    environment.globals["style"] = Markup(_source("style.css"))
    return environment


def _template(name: str) -> Template:
    return _environment().get_template(name)


def _source(name: str) -> str:
    return (files("privet.report") / name).read_text(encoding="utf-8")


def _picture(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
