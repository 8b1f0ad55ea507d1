"""What a page tells of a run: words, figures and pictures, whatever they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privet.report.charts import Curve


@dataclass(frozen=True)
class Fact:
    """A named fact, as it is printed."""

    name: str
    value: str


@dataclass(frozen=True)
class Figure:
    """A headline number.

    Args:
        value: as it is printed.
        name: what it is.
        note: what it was measured on, or stands beside.
    """

    value: str
    name: str
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar of a bar chart.

    Args:
        name: what the bar stands for.
        share: its length from 0 to 1, of the longest possible; `None` if there is nothing to show.
        value: the value as it is printed.
        own: whether it belongs to the run that the page is about.
    """

    name: str
    share: float | None
    value: str
    own: bool = True


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric, with all that is needed to read it.

    Args:
        name: of the metric.
        value: as it is printed.
        better: "higher", "lower", or a value to be near to.
        span: the range of possible values.
        meaning: what it means, in a sentence.
        on: what it was computed on, and by what.
    """

    name: str
    value: str
    better: str
    span: str
    meaning: str
    on: str


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What was promised and what it rests on.

    Args:
        private: whether there is a guarantee.
        guarantee: in one line.
        statement: in plain words.
        events: everything that was done to private rows.
        facts: relation, unit, accountant and so on.
        public: what was treated as public.
        outside: what looked at private rows outside the guarantee.
        budget: what runs reserved of the owner's ε; empty if the ledger is not there.
        budget_note: about all of them together.
    """

    private: bool
    guarantee: str
    statement: str
    events: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    public: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    budget: tuple[Bar, ...] = ()
    budget_note: str = ""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Images of one class beside each other.

    Args:
        name: of the class.
        png: a picture of them; `None` if there are no images.
        count: how many it shows.
        total: how many the set has.
        width: of the picture, in pixels.
        height: of the picture, in pixels.
        share: of the page's width that it takes, from 0 to 1.
        words: what it shows, if that is not synthetic images of a class.
    """

    name: str
    png: bytes | None
    count: int
    total: int
    width: int = 0
    height: int = 0
    share: float = 1.0
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table for a page.

    Args:
        caption: what the table shows.
        head: the names of the columns.
        rows: the cells of each row, as they are printed.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Attacks:
    """What attackers managed, beside what a guarantee allows.

    Args:
        lead: what was attacked, and on which data.
        curve: of membership inference; one line for each level of privacy.
        reading: how to read it, in a sentence.
        tables: figures.
        pairs: nearest neighbours of synthetic images, by level.
        pairs_note: how to read them.
    """

    lead: str
    curve: Curve
    reading: str
    tables: tuple[Table, ...]
    pairs: tuple[tuple[str, tuple[Samples, ...]], ...] = ()
    pairs_note: str = ""


@dataclass(frozen=True, kw_only=True)
class Story:
    """Everything that a page tells of one run.

    Args:
        name: what to call it beside others.
        title: what was made.
        lead: in a sentence or two.
        figures: headline numbers.
        privacy: what it cost.
        samples: synthetic images by class.
        curves: over the course of training.
        classes: accuracy of each class.
        classes_note: on what.
        measures: of quality.
        diagrams: beside them.
        attacks: on models like it, if somebody tried some.
        hints: what could still be done.
        settings: everything that was set.
        versions: of software.
        command: that does it again.
    """

    name: str
    title: str
    lead: str
    figures: tuple[Figure, ...]
    privacy: Privacy
    samples: tuple[Samples, ...] = ()
    curves: tuple[Curve, ...] = ()
    classes: tuple[Bar, ...] = ()
    classes_note: str = ""
    measures: tuple[Measure, ...] = ()
    diagrams: tuple[Curve, ...] = ()
    attacks: Attacks | None = None
    hints: tuple[str, ...] = ()
    settings: tuple[Fact, ...] = ()
    versions: tuple[Fact, ...] = ()
    command: str = ""
