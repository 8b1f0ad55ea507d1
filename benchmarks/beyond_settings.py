"""Claim: learning rates and epochs of `beyond_images.py` for tables are good ones on other tables.

    python benchmarks/beyond_settings.py [--only TEXT] [--minutes M]

Each method in each column of its table takes what did best on a generated table, at ε = 2: one in
the likeness of Location-30, and other people by the rule of `people`. Whether DOPE limits its
origin is decided for all columns together: without a limit, one of them grew beyond all bounds on
Location-30 after it had done well on the generated table. Every run is a `privet train` and is kept
when it is done.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import machine
from beyond_tables import Table, people, places, written
from kept_rows import Kept, arguments, do_missing, kept
from privet.runs.listening import Silent
from privet.runs.run import Session, train
from privet.runs.run_config import Asked

OUT = machine.RESULTS / "beyond_settings.json"
EPSILON, DELTA = 2.0, 1e-5
METHODS = ("dp-sgd", "dope")
SCENARIOS = ("cold", "warm", "cold-extended", "extended")
LOOKED_AT = tuple(product(METHODS, SCENARIOS))
TABLES: Mapping[str, Mapping[str, Any]] = {
    "location": {"target": "class", "public": "0.1", "test": "0.2"},
    "people": {"target": "income", "public": "0.05", "test": "0.2"},
}
EPOCHS = (5.0, 20.0)
_FREE = ("learning_rate", "epochs", "origin")
LIMITED = (
    "public:limit=1"  # public gradients no longer than clipped private ones (DOPE-SGD, equation 3)
)
COLD_RATES, WARM_RATES = (0.1, 0.3, 1.0), (0.03, 0.1, 0.3)  # a warm-up is soon undone


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One private run on a table that stands in for another.

    Args:
        data: location or people, which it stands in for.
        method: of Privet.
        scenario: a column of the paper.
        learning_rate: that is tried.
        epochs: that are tried.
        origin: that is tried; none for the method's own.
    """

    data: str
    method: str
    scenario: str
    learning_rate: float
    epochs: float
    origin: str | None = None

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells runs apart."""
        return asdict(self)

    @property
    def described(self) -> str:
        """All settings."""
        return json.dumps(dict(TABLES[self.data]))


def candidates() -> Iterator[Candidate]:
    """Of all tables and columns."""
    for data, (method, scenario) in product(TABLES, LOOKED_AT):
        rates = COLD_RATES if scenario.startswith("cold") else WARM_RATES
        column = partial(Candidate, data=data, method=method, scenario=scenario)
        for rate, epochs in product(rates, EPOCHS):
            yield column(learning_rate=rate, epochs=epochs)
        for rate in rates if method == "dope" else ():
            yield column(learning_rate=rate, epochs=max(EPOCHS), origin=LIMITED)


def run(candidate: Candidate) -> Kept:
    """From a generated table to an accuracy."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        asked = Asked(
            epsilon=EPSILON,
            delta=DELTA,
            method=candidate.method,
            scenario=candidate.scenario,
            learning_rate=candidate.learning_rate,
            epochs=candidate.epochs,
            origin=candidate.origin,
            **{**TABLES[candidate.data], **written(_stand_in(candidate.data), Path(place))},
        )
        found = train(asked, Session(out=Path(place) / "run"), Silent()).summary
    return {
        "accuracies": {"accuracy": found["test"]["accuracy"]},
        "seconds": round(time.perf_counter() - start),
        "commit": machine.COMMIT,
    }


@lru_cache(maxsize=1)
def _stand_in(data: str) -> Table:
    return places() if data == "location" else people(seed=1)


def chosen(data: str, method: str, scenario: str, runs: list[Kept] | None = None) -> dict[str, Any]:
    """What did best, with the origin that did best over all columns; the first of equals."""
    known = kept(OUT) if runs is None else runs
    own = [each for each in known if (each["data"], each["method"]) == (data, method)]
    if not own:
        raise SystemExit(f"Run beyond_settings.py first: nothing is chosen for {method} on {data}.")
    origins = dict.fromkeys(each["origin"] for each in own)
    origin = max(origins, key=lambda name: _mean_of_best(own, name))
    return {name: value for name, value in _best(own, scenario, origin).items() if name in _FREE}


def _mean_of_best(runs: list[Kept], origin: str | None) -> float:
    columns = dict.fromkeys(each["scenario"] for each in runs)
    return statistics.mean(_accuracy(_best(runs, column, origin)) for column in columns)


def _best(runs: list[Kept], scenario: str, origin: str | None) -> Kept:
    """Of a column; one that was not tried is the worst."""
    tried = [each for each in runs if (each["scenario"], each["origin"]) == (scenario, origin)]
    return max(tried, key=_accuracy, default={"accuracies": {"accuracy": 0.0}})


def _accuracy(run: Kept) -> float:
    return float(run["accuracies"]["accuracy"])


def summary(runs: list[Kept]) -> dict[str, Any]:
    """What is chosen so far."""
    columns = dict.fromkeys((each["data"], each["method"], each["scenario"]) for each in runs)
    return {"chosen": [[*column, chosen(*column, runs)] for column in columns]}


def main() -> None:
    """Try what is missing."""
    options = arguments(__doc__, data=False, public=False).parse_args()
    do_missing(OUT, candidates(), run, summary, options)


if __name__ == "__main__":
    main()
