"""The table of how many runs of every study there are."""

from __future__ import annotations

from collections import Counter

from table_text import RESULTS, kept, runs_so_far, table
from tables_learning import learn_rows
from tables_releases import DATA

_SETS = {**DATA, "fashion_mnist-imbalanced": "FashionMNIST, classes of different sizes"}


def studies_so_far() -> str:
    """How many runs of every study are there."""
    learned = len(learn_rows())
    lines = [("`learn_table.py`", "all rows", str(learned))]
    released = Counter(each["data"] for each in kept("release_table")["runs"])
    lines += [("`release_table.py`", _SETS.get(data, data), str(n)) for data, n in released.items()]
    ladder = Counter(each.get("study", each["kind"]) for each in kept("public_ladder")["runs"])
    lines += [("`public_ladder.py`", name, str(count)) for name, count in ladder.items()]
    beyond = Counter(each["data"] for each in kept("beyond_images")["runs"])
    lines += [("`beyond_images.py`", name, str(count)) for name, count in beyond.items()]
    lines += [("`release_ablations.py`", name, str(count)) for name, count in _ablations().items()]
    federated = {name: len(runs_so_far(name)) for name in ("federated_release", "federated_users")}
    lines += [(f"`{name}.py`", "all rows", str(n)) for name, n in federated.items() if n]
    return table(("script", "part", "runs there"), lines)


def _ablations() -> dict[str, int]:
    if not (RESULTS / "release_ablations.json").exists():
        return {"all tables": 0}
    body = kept("release_ablations")
    counts = Counter(each["table"] for each in body["runs"])
    return {body["titles"][key]: count for key, count in counts.items()}
