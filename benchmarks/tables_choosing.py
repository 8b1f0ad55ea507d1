"""Tables that help to choose: methods, ε and noise side by side."""

from __future__ import annotations

from typing import Any

from table_text import Rows, kept, results, seeds, table
from tables_learning import SHORT, TITLES, learn_rows
from tables_releases import KINDS, METHODS, spread


def choosing() -> str:
    """At ε = 1: what can be shared, what was public, and what it was worth."""
    lines = []
    for data, title in TITLES.items():
        lines += [(title, *each) for each in (*_models_at_one(data), *_sets_at_one(data))]
    heads = ("data", "you share", "public", "method", "test accuracy, %", "minutes")
    return table(heads, lines)


def _models_at_one(data: str) -> list[tuple[str, ...]]:
    found: dict[str, Rows] = {}
    for row in learn_rows():
        if row["data"] == data and row["epsilon"] == 1:
            found.setdefault(row["name"], []).append(row)
    frozen = "frozen" in TITLES[data]
    pretrained = "a pretrained encoder" if frozen else ""
    public = {"cold": (pretrained or "nothing"), "warm": "4% of the images"}
    public["warm + DOPE"] = public["warm"]
    shared = "a linear model" if frozen else "a small CNN"
    [alone] = [row for row in learn_rows() if row["data"] == data and row["epsilon"] is None]
    before = (shared, _both(public["warm"], pretrained), "public images alone")
    return [
        (*before, seeds([alone["public_only"]]), ""),
        *(_model_line(name, found[name], shared, public[name], pretrained) for name in SHORT),
    ]


def _model_line(
    name: str, rows: Rows, shared: str, public: str, pretrained: str
) -> tuple[str, ...]:
    return (
        shared,
        public if name == "cold" else _both(public, pretrained),
        "`dope`, warm" if "DOPE" in name else f"`dp-sgd`, {name}",
        seeds([row["accuracy"] for row in rows]),
        _minutes([row["seconds"] for row in rows]),
    )


def _both(one: str, other: str) -> str:
    return f"{one}, {other}" if other else one


def _sets_at_one(data: str) -> list[tuple[str, ...]]:
    rows = {
        (row["method"], row["classifier"]): row
        for row in kept("release_table")["rows"]
        if row["data"] == data and row["epsilon"] == 1 and row["relation"] == "add-remove"
    }
    lines: list[tuple[str, ...]] = []
    for method, title in METHODS.items():
        linear = method.startswith("dp-logistic")
        row = rows.get((method, "logistic" if linear else "cnn"))
        if row is not None:
            shared = "a linear model" if linear else "images; a CNN learned from them"
            public = "nothing" if method in _WITHOUT_PUBLIC else "photos and letters"
            name = title if linear else f"`{_TYPED.get(method, method)}`"
            lines.append((shared, public, name, spread(row), _minutes([row["seconds"]])))
    return lines


_TYPED = {"dp-mepf-1": "dp-mepf:second=false"}  # as --method takes it
_WITHOUT_PUBLIC = ("dp-merf", "dp-logistic-pixels")


def _minutes(seconds: list[float]) -> str:
    return f"{sum(seconds) / len(seconds) / 60:.1f}"


def choosing_epsilon() -> str:
    """FashionMNIST at every ε that was tried."""
    models = {
        f"{name}, a small CNN": {
            each: seeds([row["accuracy"] for row in learn_rows() if _is(row, name, each)])
            for each in _EPSILONS
        }
        for name in SHORT
    }
    made = {
        METHODS[method] + ("" if kind == "logistic" else f", {KINDS[kind]}"): {
            row["epsilon"]: spread(row)
            for row in kept("release_table")["rows"]
            if (row["data"], row["method"], row["classifier"]) == ("fashion_mnist", method, kind)
            and row["relation"] == "add-remove"
        }
        for method, kind in (
            *(("sps-g", "cnn"), ("sps-g", "discriminant")),
            *(("dp-logistic-pixels", "logistic"), ("dp-logistic-features", "logistic")),
        )
    }
    lines = [
        (name, *(found.get(each, "") for each in _EPSILONS))
        for name, found in (models | made).items()
    ]
    return table(("FashionMNIST", *(f"ε = {each:g}" for each in _EPSILONS)), lines)


_EPSILONS = (0.2, 1.0, 2.0, 4.0, 10.0)


def _is(row: dict[str, Any], name: str, epsilon: float) -> bool:
    return (row["data"], row["name"], row["epsilon"]) == ("fashion_mnist", name, epsilon)


def choosing_noise() -> str:
    """Noise of one release, in units of the clip norm, for each image of a class."""
    sigmas = {
        row["epsilon"]: row["pld"]
        for row in results("calibration")["one_shot_releases"]
        if row["releases"] == 1
    }
    sizes = (100, 500, 2000, 6000, 50_000)
    lines = [
        (f"{epsilon:g}", f"{sigma:.2f}", *(f"{sigma / size:.2g}" for size in sizes))
        for epsilon, sigma in sigmas.items()
    ]
    return table(("ε", "σ", *(f"{size:,} in a class" for size in sizes)), lines)
