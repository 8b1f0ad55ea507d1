"""Line charts as SVG, drawn in the colours of the page, so that they are light and dark with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 46
_TICKS = 5
_LEAST_SHARE = 0.1

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Lines over one axis.

    Args:
        title: of the chart.
        across: what the horizontal axis is.
        up: what the vertical axis is.
        lines: points of each line, by name.
        percent: whether values are shares, to be shown in per cent.
        limit: a value that lines are to stay below, drawn across.
    """

    title: str
    across: str
    up: str
    lines: dict[str, tuple[Point, ...]]
    percent: bool = False
    limit: float | None = None

    def described(self) -> str:
        """In words, for those who do not see it."""
        ends = (
            f"{name} goes from {self.worded(points[0][1])} to {self.worded(points[-1][1])}"
            for name, points in self.lines.items()
        )
        limit = "" if self.limit is None else f" The limit is {self.worded(self.limit)}."
        return f"{self.title}, {self.up} over {self.across}: {'; '.join(ends)}.{limit}"

    def worded(self, value: float) -> str:
        """A value of the vertical axis."""
        return f"{100 * value:.3g}%" if self.percent else f"{value:.3g}"


@dataclass(frozen=True)
class _Axis:
    """From values to places."""

    first: int
    last: int
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, least: float = 0.0) -> _Axis:
        """Whole steps around all values, `least` long or longer: small changes look small."""
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
        """Round values from end to end."""
        return [round(number * self.step, 12) for number in range(self.first, self.last + 1)]


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below what is asked for."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))


def line_chart(curve: Curve) -> Markup:
    """An SVG element with its description, axes and lines."""
    points = [point for line in curve.lines.values() for point in line]
    limit = [] if curve.limit is None else [curve.limit]
    across = _Axis.over([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    least = _LEAST_SHARE if curve.percent else 0.0
    up = _Axis.over([y for _, y in points] + limit, _HEIGHT - _BOTTOM, _TOP, least)
    parts = [
        *(_level(up(tick), curve.worded(tick)) for tick in up.ticks),
        *(_mark(across(tick), f"{tick:g}") for tick in across.ticks),
        Markup('<text class="label" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, curve.across
        ),
        *(_limit_line(up(value)) for value in limit),
        *(_line(number, line, across, up) for number, line in enumerate(curve.lines.values())),
    ]
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">{}</svg>'
    ).format(_WIDTH, _HEIGHT, curve.described(), Markup("").join(parts))


def _level(y: float, text: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(_LEFT, _WIDTH - _RIGHT, y, y, _LEFT - 8, y + 4, text)


def _mark(x: float, text: str) -> Markup:
    return Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        x, _HEIGHT - _BOTTOM + 18, text
    )


def _limit_line(y: float) -> Markup:
    return Markup('<line class="limit" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        _LEFT, _WIDTH - _RIGHT, y, y
    )


def _line(number: int, line: tuple[Point, ...], across: _Axis, up: _Axis) -> Markup:
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
