"""Claim: public rows help private training of text and tables as well.

    python benchmarks/beyond_images.py --data FOLDER [--only TEXT] [--minutes M]

FOLDER holds text/valid.txt and text/test.txt of WikiText-2 and tabular/dataset_location.tgz. The
rows are those of DOPE-SGD: Table 2 for text, Table 10 for tables. Text is the validation text of
WikiText-2, 4% of it public, and perplexity is of a fifth of its test text. Location-30 has 5,010
people, 446 places that each has been to or not, and 30 classes. The third table is generated, in
the likeness of Adult: see `people`. Every run is a `privet train`, is written when it is done, and
is not done again.

Settings are those of the preset `cpu`, but for those of `beyond_settings.py`: what was chosen for
its time; the warm-up on text, chosen on public rows after a first one of 10 epochs had done badly
on test text; and learning rates and epochs, which did best on generated tables and on other text.
Nothing is augmented, where the paper's public rows are.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import machine
from beyond_settings import (
    LOOKED_AT,
    TABLES,
    TEXT,
    TEXT_LOOKED_AT,
    chosen,
    settings,
    test_lines,
    written_text,
)
from beyond_tables import best_accuracy, location, people, written
from kept_rows import Kept, arguments, do_missing
from privet.runs.listening import Silent
from privet.runs.session import Session
from privet.runs.train_config import Asked
from privet.runs.train_run import train

OUT = machine.RESULTS / "beyond_images.json"
EPSILONS = (1.0, 2.0, 4.0)
DELTA = 1e-5
SEEDS = (0, 1, 2)


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
        return {
            **settings(self.data, self.scenario),
            **chosen(self.data, self.method, self.scenario),
        }

    @property
    def described(self) -> str:
        """All of them."""
        return json.dumps(self.settings)


def all_tasks() -> Iterator[Task]:
    """The first seed of everything, then more of it."""
    columns = {TEXT: TEXT_LOOKED_AT, **dict.fromkeys(TABLES, LOOKED_AT)}
    for seed, epsilon in product(SEEDS, EPSILONS):
        for data, runs in columns.items():
            if seed and data not in TABLES:
                continue  # text takes too long
            for method, scenario in runs:
                yield Task(data=data, method=method, scenario=scenario, epsilon=epsilon, seed=seed)


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
        found = train(asked, Session(out=Path(place) / "run"), Silent()).summary
    measure = "perplexity" if task.data == TEXT else "accuracy"
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
    if data == TEXT:
        read, _ = test_lines(folder)
        test = written_text(read, place / "test.txt")
        return {"data": str(folder / "text" / "valid.txt"), "test": test}
    return written(location(folder) if data == "location" else people(), place)


def summary(runs: list[Kept]) -> dict[str, Any]:
    """How many there are, and the best that is possible for the generated table."""
    return {"rows": len(runs), "best_accuracy": {"people": best_accuracy()}}


def main() -> None:
    """Run what is missing."""
    options = arguments(__doc__, public=False).parse_args()
    commit = machine.settings_commit("beyond_images.py", "results/beyond_settings.json")
    do_missing(OUT, all_tasks(), partial(run, folder=options.data, commit=commit), summary, options)


if __name__ == "__main__":
    main()
