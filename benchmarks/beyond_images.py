"""Claim: public rows help private training of text and tables as well.

    python benchmarks/beyond_images.py --data FOLDER [--only TEXT] [--minutes M]

FOLDER holds text/valid.txt and text/test.txt of WikiText-2 and tabular/dataset_location.tgz. The
rows are those of paper 004: Table 2 for text, Table 10 for tables. Text is the validation text of
WikiText-2, 4% of it public, and perplexity is of a fifth of its test text. Location-30 has 5,010
people, 446 places that each has been to or not, and 30 classes. The third table is generated, in
the likeness of Adult: see `people`. Every run is a `privet train`, is written when it is done, and
is not done again.

Settings are those of the preset `cpu`, but for what stands below, which was chosen for its time;
the warm-up on text on public rows, after a first one of 10 epochs had done badly on test text.
Nothing is augmented, where the paper's public rows are.
"""

from __future__ import annotations

import csv
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from kept_rows import Kept, arguments, do_missing
from privet.recipes.run import Session, train
from privet.recipes.run_config import Asked

OUT = machine.RESULTS / "beyond_images.json"
EPSILONS = (1.0, 2.0, 4.0)
DELTA = 1e-5
SEEDS = (0, 1, 2)
SCENARIOS = ("cold", "warm", "cold-extended", "extended")
METHODS = ("dp-sgd", "dope")
PEOPLE = 20_000
TEST_SHARE = 0.2  # of the test text, from its beginning: it is read ten times in a run
TEXT: Mapping[str, Any] = {
    "task": "mlm",
    "public": "0.04",
    "model": "mlm:width=32,heads=2,depth=2",
    "sample_rate": 0.05,
    "epochs": 2.0,
}
TEXT_WARM_UP = {"warm_up_epochs": 50}  # best of 1 to 50 on a fifth of the public text
TABLES: Mapping[str, Mapping[str, Any]] = {
    "location": {"target": "class", "public": "0.1", "test": "0.2", "epochs": 5.0},
    "people": {"target": "income", "public": "0.05", "test": "0.2", "epochs": 5.0},
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One private run.

    Args:
        data: wikitext-2, location or people.
        method: of Privet.
        scenario: a column of the paper.
        epsilon: that is spent.
        seed: of the split, the weights and everything public.
    """

    data: str
    method: str
    scenario: str
    epsilon: float
    seed: int

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells runs apart."""
        return asdict(self)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Beside those of the preset."""
        if self.data == "wikitext-2":
            return TEXT if self.scenario == "cold" else {**TEXT, **TEXT_WARM_UP}
        return TABLES[self.data]

    @property
    def described(self) -> str:
        """All of them."""
        return json.dumps(self.settings)


def all_tasks() -> Iterator[Task]:
    """The first seed of everything, then more of it."""
    text = (("dp-sgd", "cold"), ("dp-sgd", "warm"), ("dope", "warm"))
    columns = {
        "wikitext-2": text,
        **dict.fromkeys(TABLES, tuple(product(METHODS, SCENARIOS))),
    }
    for seed, epsilon in product(SEEDS, EPSILONS):
        for data, runs in columns.items():
            for method, scenario in runs:
                yield Task(data=data, method=method, scenario=scenario, epsilon=epsilon, seed=seed)


class Quiet:
    """Nobody listens."""

    def note(self, sentence: str) -> None:
        """In vain."""

    def step(self, news: object) -> None:
        """Likewise."""


def run(task: Task, *, folder: Path, commit: str) -> Kept:
    """From files to a certificate, as the command does it."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        source = _written(task.data, folder, Path(place))
        asked = Asked(
            method=task.method,
            scenario=task.scenario,
            epsilon=task.epsilon,
            delta=DELTA,
            seed=task.seed,
            **{**source, **task.settings},
        )
        found = train(asked, Session(out=Path(place) / "run"), Quiet()).summary
    measure = "perplexity" if task.data == "wikitext-2" else "accuracy"
    before = found["test_after_warm_up"]
    return {
        "measure": measure,
        "value": found["test"][measure],
        "public_alone": None if before is None else before[measure],
        "test_rows": found["test"]["count"],
        "guarantee": found["guarantee"],
        "noise_multiplier": found["noise_multiplier"],
        "steps": found["steps"]["done"],
        "parameters": found["parameters"],
        "accuracies": {measure: found["test"][measure]},
        "seconds": round(time.perf_counter() - start),
        "settings_commit": commit,
        "commit": machine.COMMIT,
    }


def _written(data: str, folder: Path, place: Path) -> dict[str, str]:
    """Where the rows of a task lie, and what their columns hold."""
    if data == "wikitext-2":
        lines = (folder / "text" / "test.txt").read_text(encoding="utf-8").splitlines()
        test = place / "test.txt"
        test.write_text("\n".join(lines[: int(TEST_SHARE * len(lines))]) + "\n", encoding="utf-8")
        return {"data": str(folder / "text" / "valid.txt"), "test": str(test)}
    columns, schema = location(folder) if data == "location" else people()
    rows, told = place / "rows.csv", place / "schema.json"
    with rows.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    told.write_text(json.dumps(schema))
    return {"data": str(rows), "schema": str(told)}


def location(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Location-30 (Shokri et al. 2017): a class, and 446 places in ones and zeros."""
    with tarfile.open(folder / "tabular" / "dataset_location.tgz") as archive:
        file = archive.extractfile("bangkok")
        assert file is not None
        text = file.read().decode().replace('"', "")
    numbers = np.array([line.split(",") for line in text.splitlines()], dtype=int)
    columns = {f"place{number}": column for number, column in enumerate(numbers[:, 1:].T)}
    schema = {
        "target": "class",
        "classes": [str(number) for number in range(1, 31)],
        "columns": [{"kind": "binary", "name": name, "values": ["0", "1"]} for name in columns],
    }
    return {**columns, "class": numbers[:, 0]}, schema


def people() -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A generated table in the likeness of Adult: nobody in it exists.

    Age, hours and years at school are numbers, sex and marriage are binary, work and region are
    categories; who earns much follows a rule in which they interact, with noise (see `earns`), and
    about a quarter does.
    """
    rng = np.random.default_rng(0)
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


WORK = ("office", "trade", "factory", "farm", "law")
REGIONS = ("north", "east", "south", "west")


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


def summary(runs: list[Kept]) -> dict[str, Any]:
    """How many there are, and the best that is possible for the generated table."""
    return {"rows": len(runs), "best_accuracy": {"people": best_accuracy()}}


def main() -> None:
    """Run what is missing."""
    options = arguments(__doc__, public=False).parse_args()
    commit = machine.settings_commit("beyond_images.py")
    do_missing(OUT, all_tasks(), partial(run, folder=options.data, commit=commit), summary, options)


if __name__ == "__main__":
    main()
