"""The tables of `beyond_images.py`: one that is real, and generated ones like it and like Adult."""

from __future__ import annotations

import csv
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PEOPLE = 20_000
WORK = ("office", "trade", "factory", "farm", "law")
REGIONS = ("north", "east", "south", "west")

Table = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""Columns, and the schema that declares what they hold."""


def written(table: Table, place: Path) -> dict[str, str]:
    """As files, and what `privet train` is asked to read."""
    columns, schema = table
    rows, told = place / "rows.csv", place / "schema.json"
    with rows.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    told.write_text(json.dumps(schema))
    return {"data": str(rows), "schema": str(told)}


def location(folder: Path) -> Table:
    """Location-30 (Shokri et al. 2017): a class, and 446 places in ones and zeros."""
    with tarfile.open(folder / "tabular" / "dataset_location.tgz") as archive:
        file = archive.extractfile("bangkok")
        assert file is not None
        text = file.read().decode().replace('"', "")
    numbers = np.array([line.split(",") for line in text.splitlines()], dtype=int)
    return _visits(numbers[:, 1:], numbers[:, 0])


def _visits(visited: NDArray[Any], classes: NDArray[Any]) -> Table:
    columns = {f"place{number}": column for number, column in enumerate(visited.T)}
    schema = {
        "target": "class",
        "classes": [str(number) for number in range(1, 31)],
        "columns": [{"kind": "binary", "name": name, "values": ["0", "1"]} for name in columns],
    }
    return {**columns, "class": classes}, schema


def places() -> Table:
    """A generated table in the likeness of Location-30, to choose settings on: nobody in it exists.

    How often places are visited differs from place to place, and a little from class to class.
    """
    rng = np.random.default_rng(0)
    usual, own = rng.normal(-2.2, 1.2, 446), rng.normal(0, 1, (30, 446))
    classes = rng.integers(0, 30, 5010)
    chance = 1 / (1 + np.exp(-(usual + 0.6 * own[classes])))
    return _visits((rng.random(chance.shape) < chance).astype(int), classes + 1)


def people(seed: int = 0) -> Table:
    """A generated table in the likeness of Adult: nobody in it exists.

    Age, hours and years at school are numbers, sex and marriage are binary, work and region are
    categories; who earns much follows a rule in which they interact, with noise (see `earns`), and
    about a quarter does.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, NDArray[Any]] = {
        "age": rng.integers(17, 91, PEOPLE),
        "hours": np.clip(rng.normal(40, 12, PEOPLE), 1, 99).round(),
        "school": rng.integers(1, 17, PEOPLE),
        "sex": rng.choice(["female", "male"], PEOPLE),
        "married": rng.choice(["no", "yes"], PEOPLE, p=[0.55, 0.45]),
        "work": rng.choice(WORK, PEOPLE, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
        "region": rng.choice(REGIONS, PEOPLE),
    }
    much = rng.random(PEOPLE) < earns(columns)
    columns["income"] = np.where(much, "much", "little")
    numbers = {"age": (17, 90), "hours": (1, 99), "school": (1, 16)}
    schema = {
        "target": "income",
        "classes": ["little", "much"],
        "columns": [
            *(
                {"kind": "numeric", "name": name, "low": low, "high": high}
                for name, (low, high) in numbers.items()
            ),
            {"kind": "binary", "name": "sex", "values": ["female", "male"]},
            {"kind": "binary", "name": "married", "values": ["no", "yes"]},
            {"kind": "categorical", "name": "work", "categories": list(WORK)},
            {"kind": "categorical", "name": "region", "categories": list(REGIONS)},
        ],
    }
    return columns, schema


def earns(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The probability of a high income: the rule that a perfect model would know."""
    age = 1 - ((columns["age"] - 50) / 25) ** 2  # rises and falls
    hours = (columns["hours"] - 40) / 12
    school = (columns["school"] - 9) / 4
    married = columns["married"] == "yes"
    skilled = np.isin(columns["work"], ["office", "law"])
    farm_north = (columns["work"] == "farm") & (columns["region"] == "north")
    score = 1.2 * age + np.where(married, 1.5, 0.3) * hours + np.where(skilled, 1.8, 0.3) * school
    score = score + 1.0 * married + 2.5 * farm_north - 2.6
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-2 * score))
    return probability


def best_accuracy() -> float:
    """Of who knows the rule."""
    columns, _ = people()
    chance = earns(columns)
    return float(np.maximum(chance, 1 - chance).mean())
