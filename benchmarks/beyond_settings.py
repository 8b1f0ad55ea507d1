"""Claim: learning rates and epochs of `beyond_images.py` are good ones on other tables and text.

    python benchmarks/beyond_settings.py --data FOLDER [--only TEXT] [--minutes M]

FOLDER is that of `beyond_images.py`. Each method in each column of its table takes what did best
on a generated table, at ε = 2: one in the likeness of Location-30, and other people by the rule of
`people`. Whether DOPE limits its origin is decided for all columns together: without a limit, one
of them grew beyond all bounds on Location-30 after it had done well on the generated table.
Learning rates on text are those that did best on what `beyond_images.py` does not read of the test
text of WikiText-2. Every run is a `privet train` and is kept when it is done.
"""

from __future__ import annotations

import json
import math
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
from privet.runs.session import Session
from privet.runs.train_config import Asked
from privet.runs.train_run import train

OUT = machine.RESULTS / "beyond_settings.json"
EPSILON, DELTA = 2.0, 1e-5
METHODS = ("dp-sgd", "dope")
SCENARIOS = ("cold", "warm", "cold-extended", "extended")
LOOKED_AT = tuple(product(METHODS, SCENARIOS))
TABLES: Mapping[str, Mapping[str, Any]] = {
    "location": {"target": "class", "public": "0.1", "test": "0.2"},
    "people": {"target": "income", "public": "0.05", "test": "0.2"},
}
TEXT, TEXT_EPOCHS = "wikitext-2", 2.0
TEXT_LOOKED_AT = (("dp-sgd", "cold"), ("dp-sgd", "warm"), ("dope", "warm"))
TEXT_SETTINGS: Mapping[str, Any] = {
    "task": "mlm",
    "public": "0.04",
    "model": "mlm:width=32,heads=2,depth=2",
    "sample_rate": 0.05,
}
TEXT_WARM_UP = {"warm_up_epochs": 50}  # best of 1 to 50 on a fifth of the public text
TEST_SHARE = 0.2  # of the test text, from its beginning: it is read ten times in a run
EPOCHS = (5.0, 20.0)
_FREE = ("learning_rate", "epochs", "origin")
LIMITED = (
    "public:limit=1"  # public gradients no longer than clipped private ones (DOPE-SGD, equation 3)
)
COLD_RATES, WARM_RATES = (0.1, 0.3, 1.0), (0.03, 0.1, 0.3)  # a warm-up is soon undone
TEXT_COLD_RATES, TEXT_WARM_RATES = (0.3, 1.0, 3.0, 10.0), (0.1, 0.3, 1.0)
# The mean of gradients that are clipped one by one is shorter than each of them, and a public
# gradient of their length may outweigh it.
TEXT_ORIGINS = (None, LIMITED, "public:limit=0.3", "public:limit=0.1")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One private run on a table or a text that stands in for another.

    Args:
        data: location, people or wikitext-2, which it stands in for.
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
        return json.dumps(dict(settings(self.data, self.scenario)))


def settings(data: str, scenario: str) -> Mapping[str, Any]:
    """What is not tried."""
    if data in TABLES:
        return TABLES[data]
    return TEXT_SETTINGS if scenario == "cold" else {**TEXT_SETTINGS, **TEXT_WARM_UP}


def candidates() -> Iterator[Candidate]:
    """Of all tables and columns, and of text."""
    for data, (method, scenario) in product(TABLES, LOOKED_AT):
        rates = COLD_RATES if scenario.startswith("cold") else WARM_RATES
        column = partial(Candidate, data=data, method=method, scenario=scenario)
        for rate, epochs in product(rates, EPOCHS):
            yield column(learning_rate=rate, epochs=epochs)
        for rate in rates if method == "dope" else ():
            yield column(learning_rate=rate, epochs=max(EPOCHS), origin=LIMITED)
    for method, scenario in TEXT_LOOKED_AT:
        column = partial(Candidate, data=TEXT, method=method, scenario=scenario, epochs=TEXT_EPOCHS)
        for rate in TEXT_COLD_RATES if scenario == "cold" else TEXT_WARM_RATES:
            for origin in TEXT_ORIGINS if method == "dope" else (None,):
                yield column(learning_rate=rate, origin=origin)


def run(candidate: Candidate, folder: Path) -> Kept:
    """From a table or a text that stands in to an accuracy or a perplexity."""
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
            **{
                **settings(candidate.data, candidate.scenario),
                **_stand_in(candidate.data, folder, Path(place)),
            },
        )
        found = train(asked, Session(out=Path(place) / "run"), Silent()).summary
    measure = "perplexity" if candidate.data == TEXT else "accuracy"
    return {
        "accuracies": {measure: found["test"][measure]},
        "seconds": round(time.perf_counter() - start),
        "commit": machine.COMMIT,
    }


def _stand_in(data: str, folder: Path, place: Path) -> dict[str, str]:
    if data in TABLES:
        return written(_table(data), place)
    _, unread = test_lines(folder)
    most = int((1 - TEST_SHARE) * len(unread))
    return {
        "data": written_text(unread[:most], place / "rows.txt"),
        "test": written_text(unread[most:], place / "test.txt"),
    }


@lru_cache(maxsize=1)
def _table(data: str) -> Table:
    return places() if data == "location" else people(seed=1)


def test_lines(folder: Path) -> tuple[list[str], list[str]]:
    """Of the test text of WikiText-2: those that `beyond_images.py` reads, and the others."""
    lines = (folder / "text" / "test.txt").read_text(encoding="utf-8").splitlines()
    read = int(TEST_SHARE * len(lines))
    return lines[:read], lines[read:]


def written_text(lines: list[str], path: Path) -> str:
    """As a file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


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
    return statistics.mean(_score(_best(runs, column, origin)) for column in columns)


def _best(runs: list[Kept], scenario: str, origin: str | None) -> Kept:
    """Of a column; one that was not tried is the worst."""
    tried = [each for each in runs if (each["scenario"], each["origin"]) == (scenario, origin)]
    return max(tried, key=_score, default={"accuracies": {"accuracy": -math.inf}})


def _score(run: Kept) -> float:
    """More is better; a perplexity is not."""
    [(measure, value)] = run["accuracies"].items()
    return -float(value) if measure == "perplexity" else float(value)


def summary(runs: list[Kept]) -> dict[str, Any]:
    """What is chosen so far."""
    columns = dict.fromkeys((each["data"], each["method"], each["scenario"]) for each in runs)
    return {"chosen": [[*column, chosen(*column, runs)] for column in columns]}


def main() -> None:
    """Try what is missing."""
    options = arguments(__doc__, public=False).parse_args()
    do_missing(OUT, candidates(), partial(run, folder=options.data), summary, options)


if __name__ == "__main__":
    main()
