"""Line charts as SVG, drawn in the colours of the page, so that they are light and dark with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 46
_TICKS = 5
_LEAST_SHARE = 0.1

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A chart of one or more lines over a common axis.

    Args:
        title: the title of the chart.
        across: the name of the horizontal axis.
        up: the name of the vertical axis.
        lines: points of each line, by name.
        percent: whether values are shares, to be shown in per cent.
        limit: a value that lines are to stay below, drawn across.
        bounds: points that a line is to stay below, by its name: dashed, in its colour.
        logarithmic: whether both axes are logarithmic; both are then shares.
    """

    title: str
    across: str
    up: str
    lines: dict[str, tuple[Point, ...]]
    percent: bool = False
    limit: float | None = None
    bounds: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    logarithmic: bool = False

    def described(self) -> str:
        """A description of the chart in words, for those who do not see it."""
        ends = (
            f"{name} goes from {self.worded(points[0][1])} to {self.worded(points[-1][1])}"
            for name, points in self.lines.items()
        )
        limit = "" if self.limit is None else f" The limit is {self.worded(self.limit)}."
        bounds = "".join(
            f" The bound of {name} goes from {self.worded(points[0][1])} to "
            f"{self.worded(points[-1][1])}."
            for name, points in self.bounds.items()
        )
        return f"{self.title}, {self.up} over {self.across}: {'; '.join(ends)}.{limit}{bounds}"

    def worded(self, value: float) -> str:
        """A value of the vertical axis as a text."""
        return f"{100 * value:.3g}%" if self.percent else f"{value:.3g}"


@dataclass(frozen=True)
class _Axis:
    """A linear map from values to places on the page."""

    first: int
    last: int
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, least: float = 0.0) -> _Axis:
        """An axis around all values, `least` long or longer so that small changes look small."""
        low, high = min(values), max(values)
        if high - low < least:
            high = max(high, min((low + high + least) / 2, 1.0))  # no share is more than all
            low = high - least
        step = _round_step((high - low or abs(high) or 1.0) / _TICKS)
        first, last = math.floor(low / step), math.ceil(high / step)
        return cls(first, max(last, first + 1), step, start, end)

    def __call__(self, value: float) -> float:
        share = (value / self.step - self.first) / (self.last - self.first)
        return round(self.start + share * (self.end - self.start), 2)

    @property
    def ticks(self) -> list[float]:
        """The round values at which the axis has ticks, from end to end."""
        return [round(number * self.step, 12) for number in range(self.first, self.last + 1)]


@dataclass(frozen=True)
class _PowersOfTen:
    """A logarithmic map from values to places; values below the first power lie on it."""

    first: int
    last: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _PowersOfTen:
        """An axis of whole powers of ten around all values above 0."""
        powers = [math.log10(each) for each in values if each > 0] or [0.0]
        first, last = math.floor(min(powers) + 1e-9), math.ceil(max(powers) - 1e-9)
        return cls(first, max(last, first + 1), start, end)

    def __call__(self, value: float) -> float:
        power = max(math.log10(value), self.first) if value > 0 else self.first
        share = (power - self.first) / (self.last - self.first)
        return round(self.start + share * (self.end - self.start), 2)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten at which the axis has ticks."""
        return [10.0**power for power in range(self.first, self.last + 1)]


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below what is asked for."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))


_AnyAxis = _Axis | _PowersOfTen


def line_chart(curve: Curve) -> Markup:
    """Draw a chart as an SVG element, with its description."""
    limit = [] if curve.limit is None else [curve.limit]
    across, up = _axes(curve, limit)
    told = curve.worded if curve.logarithmic else "{:g}".format
    numbers = {name: number for number, name in enumerate(curve.lines)}
    parts = [
        *(_level(up(tick), curve.worded(tick)) for tick in up.ticks),
        *(_mark(across(tick), told(tick)) for tick in across.ticks),
        Markup('<text class="label" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, curve.across
        ),
        *(_limit_line(up(value)) for value in limit),
        *(_bound(numbers[name], line, across, up) for name, line in curve.bounds.items()),
        *(_line(number, line, across, up) for number, line in enumerate(curve.lines.values())),
    ]
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">{}</svg>'
    ).format(_WIDTH, _HEIGHT, curve.described(), Markup("").join(parts))


def _axes(curve: Curve, limit: list[float]) -> tuple[_AnyAxis, _AnyAxis]:
    lines = (*curve.lines.values(), *curve.bounds.values())
    points = [point for line in lines for point in line]
    width, height = (_LEFT, _WIDTH - _RIGHT), (_HEIGHT - _BOTTOM, _TOP)
    xs, ys = [x for x, _ in points], [y for _, y in points] + limit
    if curve.logarithmic:
        across = _PowersOfTen.over(xs, *width)
        floor = 10.0**across.first  # hits that are rarer than any false alarm shown are as good
        return across, _PowersOfTen.over([max(y, floor) for y in ys], *height)
    least = _LEAST_SHARE if curve.percent else 0.0
    return _Axis.over(xs, *width), _Axis.over(ys, *height, least)


def _level(y: float, text: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(_LEFT, _WIDTH - _RIGHT, y, y, _LEFT - 8, y + 4, text)


def _mark(x: float, text: str) -> Markup:
    anchor = "end" if x >= _WIDTH - _RIGHT and len(text) > 3 else "middle"  # else it is cut off
    return Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        x if anchor == "middle" else _WIDTH - 2, _HEIGHT - _BOTTOM + 18, anchor, text
    )


def _limit_line(y: float) -> Markup:
    return Markup('<line class="limit" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        _LEFT, _WIDTH - _RIGHT, y, y
    )


def _bound(number: int, line: tuple[Point, ...], across: _AnyAxis, up: _AnyAxis) -> Markup:
    places = " ".join(f"{across(x)},{up(y)}" for x, y in line)
    return Markup('<polyline class="line bound line{}" points="{}"/>').format(number % 6, places)


def _line(number: int, line: tuple[Point, ...], across: _AnyAxis, up: _AnyAxis) -> Markup:
    places = [(across(x), up(y)) for x, y in line]
    drawn = Markup('<polyline class="line line{}" points="{}"/>').format(
        number % 6, " ".join(f"{x},{y}" for x, y in places)
    )
    if len(places) > 30:
        return drawn
    dots = (
        Markup('<circle class="dot line{}" cx="{}" cy="{}" r="3"/>').format(number % 6, x, y)
        for x, y in places
    )
    return drawn + Markup("").join(dots)
