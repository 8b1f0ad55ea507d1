"""What a page tells of `privet audit attack`, from its file."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privet.data import ImageSet
from privet.data.guard import shown
from privet.errors import DataError
from privet.report import Attacks, Curve, Samples, Table
from privet.runs.sample_strips import strips

SCHEMA = "privet.attack/1"
LIRA, THRESHOLD, DISTANCE = "LiRA", "one threshold", "distance"
NOT_PRIVATE = "not private"
_MOST_BYTES = 16 << 20
_ROWS = ("synthetic", "nearest member", "nearest other")
_CHANCE = "chance"
_KINDS = {
    "auc": "AUC",
    "hits_at_0.01": "found at 1% false alarms",
    "hits_at_0.001": "at 0.1%",
}

Found = Mapping[str, Any]


def attack_story(path: Path) -> Attacks:
    """Read from the file of `privet audit attack` what a page tells of it.

    Raises:
        DataError: if it is not what `privet audit attack` wrote.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise ValueError
        return _told(found)
    except OSError:
        raise DataError(f"{shown(path)} cannot be read: give a file that is there.") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{shown(path)} is nothing that this version's 'privet audit attack' wrote: write it "
            "again."
        ) from None


def _told(found: Found) -> Attacks:
    models, sets = found["membership"], found["extraction"]
    return Attacks(
        lead=f"Not on this run: on {int(found['models'])} models for each level of privacy, each "
        f"of a random half of {int(found['examples']):,} examples of {shown(found['data'])}, which "
        "were declared public for it. An attack that fails proves nothing; the guarantee is about "
        "all of them.",
        curve=_curve(models),
        reading="Each line says how many members LiRA finds for the false alarms it may raise: the "
        "nearer to chance, the less models tell; a dashed line is the most that ε allows any "
        f"attack. {_claims(models)}",
        tables=(_models(models), *([_sets(sets)] if sets else ())),
        pairs=tuple((shown(each["level"]), tuple(_pairs(each))) for each in sets),
        pairs_note="Synthetic images whose nearest member is nearest for their nearest non-member, "
        "with both. A copy looks like its member alone.",
    )


def _curve(models: list[Found]) -> Curve:
    lines = {shown(each["level"]): _points(each["attacks"][LIRA]["curve"]) for each in models}
    rates = [rate for rate, _ in next(iter(lines.values()))]
    bounds = {
        shown(each["level"]): tuple((rate, _allowed(each, rate)) for rate in rates)
        for each in models
        if each["epsilon"] is not None
    }
    chance = tuple((rate, rate) for rate in rates)
    return Curve(
        title="Members that LiRA finds, over its false alarms",
        across="false alarms",
        up="members found",
        lines={**lines, _CHANCE: chance},
        bounds=bounds,
        percent=True,
        logarithmic=True,
    )


def _points(points: list[list[float]]) -> tuple[tuple[float, float], ...]:
    found = tuple((_share(rate), _share(hits)) for rate, hits in points)
    if len(found) < 2 or found[0][0] <= 0:
        raise ValueError
    return found


def _share(value: float) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError
    return float(value)


def _allowed(level: Found, rate: float) -> float:
    epsilon, delta = float(level["epsilon"]), float(level["delta"])
    if not (epsilon > 0 and 0 <= delta < 1):
        raise ValueError
    upwards = math.exp(min(epsilon, 50)) * rate + delta
    return min(1.0, upwards, 1 - math.exp(-epsilon) * (1 - delta - rate))


def _models(levels: list[Found]) -> Table:
    rows = [
        (
            shown(each["level"]),
            name,
            f"{_share(each['accuracy_on_others']):.1%}",
            *(_cell(each["attacks"][name]["figures"][kind]) for kind in _KINDS),
        )
        for each in levels
        for name in (LIRA, THRESHOLD)
    ]
    return Table(
        caption="Membership inference on models, with intervals of 95% and the most that is "
        "allowed.",
        head=("models", "attack", "test accuracy", *_KINDS.values()),
        rows=tuple(rows),
    )


def _sets(levels: list[Found]) -> Table:
    rows = [
        (
            shown(each["level"]),
            f"{_share(each['nearer']):.1%} ({_span(each['nearer_by_chance'])})",
            f"{_share(each['copies']):.1%} (by chance {_share(each['chance_copies']):.1%})",
            _cell(each["attacks"][DISTANCE]["figures"]["auc"]),
        )
        for each in levels
    ]
    return Table(
        caption="Nearest neighbours of synthetic images, by pixels.",
        head=(
            "images",
            "nearer to a member than to others (by chance)",
            "copies of members",
            "AUC of membership by distance",
        ),
        rows=tuple(rows),
    )


def _span(ends: list[float]) -> str:
    low, high = map(_share, ends)
    return f"{low:.1%} to {high:.1%}"


def _claims(levels: list[Found]) -> str:
    claims = [shown(each["guarantee"]) for each in levels if each["guarantee"] is not None]
    return f"Promised: {'; '.join(claims)}." if claims else "Nothing was promised."


def _cell(figure: Found) -> str:
    value, low, high = (_share(figure[each]) for each in ("value", "low", "high"))
    allowed = figure["allowed"]
    most = "" if allowed is None else f"; ≤\N{NO-BREAK SPACE}{_share(allowed):.3f}"
    return f"{value:.3f} ({low:.3f} to {high:.3f}{most})"


def _pairs(level: Found) -> Iterator[Samples]:
    """Yield three strips: synthetic images, and under each its nearest member and nearest other."""
    packed = level["pairs"]
    count, kinds, height, width, channels = map(int, packed["shape"])
    try:
        raw = base64.b64decode(packed["pixels"], validate=True)
    except binascii.Error as error:
        raise ValueError from error
    if kinds != len(_ROWS) or min(count, height, width) < 1:
        raise ValueError
    pixels = np.frombuffer(raw, np.uint8).reshape(count, kinds, height, width, channels)
    images = ImageSet(
        pixels.swapaxes(0, 1).reshape(-1, height, width, channels),
        np.arange(kinds).repeat(count),
        _ROWS,
    )
    for strip in strips(images, _ROWS):
        words = f"{strip.count} images, {strip.name}, {shown(level['level'])}"
        yield replace(strip, words=words)
