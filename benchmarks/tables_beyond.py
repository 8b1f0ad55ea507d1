"""Tables of what goes beyond one set of images: text, tables, stages, hybrids, parties, users."""

from __future__ import annotations

from typing import Any

from table_text import Rows, kept, percent, runs_so_far, seeds, table


def beyond_images() -> str:
    """Text and tables by the columns of DOPE-SGD."""
    by_place: dict[tuple[str, float], dict[tuple[str, str], Rows]] = {}
    for each in kept("beyond_images")["runs"]:
        line = by_place.setdefault((each["data"], each["epsilon"]), {})
        line.setdefault((each["method"], each["scenario"]), []).append(each)
    names = {"wikitext-2": "WikiText-2, perplexity", "location": "Location-30", "people": "People"}
    columns = {
        (method, scenario): f"{name} {words}"
        for method, name in (("dp-sgd", "DP-SGD"), ("dope", "DOPE"))
        for scenario, words in _SCENARIOS.items()
    }
    rows = [
        (
            names[data],
            f"{epsilon:g}",
            _public_alone([run for runs in line.values() for run in runs]),
            *(_beyond(line.get(column, [])) for column in columns),
        )
        for (data, epsilon), line in sorted(by_place.items())
    ]
    return table(("data", "ε", "public alone", *columns.values()), rows)


_SCENARIOS = {
    "cold": "cold",
    "warm": "warm",
    "cold-extended": "cold-ext.",
    "extended": "warm-ext.",
}


def _public_alone(runs: Rows) -> str:
    """After the warm-up, which runs of one seed share."""
    known = {run["seed"]: run for run in runs if run["public_alone"] is not None}
    return _beyond([{**run, "value": run["public_alone"]} for run in known.values()])


def _beyond(runs: Rows) -> str:
    if not runs:
        return ""
    value = sum(run["value"] for run in runs) / len(runs)
    text = f"{value:.0f}" if runs[0]["measure"] == "perplexity" else f"{100 * value:.1f}"
    return f"{text} ({len(runs)})"


def continual() -> str:
    """Accuracy on the classes so far, after each stage; of a joint release, on all of them."""
    runs = runs_so_far("continual")
    stages = range(5)
    names = {
        "cumulative": "a CNN of all synthetic sets so far",
        "fine-tuned": "a CNN that went on with the newest set alone",
        "joint": "a CNN of one release of all classes",
    }
    rows = []
    for key, name in names.items():
        found = [each["accuracies"][key] for each in runs if key in each["accuracies"]]
        padded = [[None] * (len(stages) - len(each)) + each for each in found]
        cells = [[each[k] for each in padded if each[k] is not None] for k in stages]
        rows.append((name, *map(seeds, cells)))
    return table(("trained on", *(f"{2 * k + 2} classes" for k in stages)), rows)


def hybrid() -> str:
    """Both parents and the hybrid, each with all of ε; one line for every set and ε."""
    runs = kept("hybrid")["runs"]
    shares = sorted({run["share"] for run in runs} - {"", "auto"})
    columns = [("release", ""), ("training", ""), ("hybrid", "auto")]
    columns += [("hybrid", share) for share in shares]
    cells: dict[tuple[str, float], dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for run in runs:
        line = cells.setdefault((run["data"], run["epsilon"]), {})
        line.setdefault((run["method"], run["share"]), []).append(run)
    head = ("", "ε", "release alone", "training alone", "proposed share", *shares)
    rows = [
        (
            _HYBRID_SETS[data],
            f"{epsilon:g}",
            *[_hybrid_cell(line.get(each, [])) for each in columns],
        )
        for (data, epsilon), line in sorted(cells.items(), key=lambda item: _hybrid_order(item[0]))
    ]
    return table(head, rows)


def _hybrid_order(line: tuple[str, float]) -> tuple[int, float]:
    return list(_HYBRID_SETS).index(line[0]), line[1]


def _hybrid_cell(runs: list[dict[str, Any]]) -> str:
    """The accuracy; of a proposed share, which it was."""
    found = seeds([run["accuracies"]["test"] for run in runs])
    proposed = {run["release"]["share"] for run in runs if run["share"] == "auto"}
    return f"{found} ({', '.join(f'{each:g}' for each in proposed)})" if proposed else found


_HYBRID_SETS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "letters": "letters"}


def federated_release() -> str:
    """What sets of five parties are worth, by who adds up and who makes images."""
    lines: dict[tuple[str, str, str], dict[float, str]] = {}
    for run in runs_so_far("federated_release"):
        for way, cell in _federated_cells(run).items():
            lines.setdefault((run["split"], run["method"], way), {})[run["epsilon"]] = cell
    epsilons = sorted({epsilon for line in lines.values() for epsilon in line})
    rows = [
        (
            *(names[each] for names, each in zip(_FEDERATED, key, strict=True)),
            *(lines[key].get(epsilon, "") for epsilon in epsilons),
        )
        for key in sorted(lines, key=_federated_order)
    ]
    columns = [f"ε = {each:g}, CNN / logistic" for each in epsilons]
    return table(("parties", "method", "way", *columns), rows)


def _federated_cells(run: dict[str, Any]) -> dict[str, str]:
    """Accuracies by way; a server's own network is one more."""
    found = run["accuracies"]
    both = " / ".join(percent(found[kind]) for kind in ("cnn", "logistic") if kind in found)
    server = {"server": percent(found["server"])} if "server" in found else {}
    return {run["way"]: both, **server}


def _federated_order(key: tuple[str, str, str]) -> list[int]:
    return [list(names).index(each) for names, each in zip(_FEDERATED, key, strict=True)]


_SPLITS = {"iid": "alike", "apart": "two to four classes each"}
_PARTY_METHODS = {
    "sps-g": "SPS-G",
    "sps-plus": "SPS+",
    "feddm": "FedDM",
    "fedlap-dp": "FedLAP-DP",
}
_WAYS = {
    "alone": "one party alone",
    "decentralised": "decentralised",
    "centralised": "centralised",
    "pooled": "pooled",
    "server": "five rounds, the server's network",
    "rounds": "five rounds",
}
_FEDERATED = (_SPLITS, _PARTY_METHODS, _WAYS)


def federated_users() -> str:
    """Accuracy by what public users are for, the same guarantee for every private one."""
    names = {
        "all": "every user is private",
        "private-only": "public users are dropped",
        "public-beside": "public users beside, without noise",
        "dope": "DOPE around public users",
    }
    epsilons = (0.5, 1.0, 2.0, 4.0)
    cells: dict[str, dict[float, list[float]]] = {}
    for run in runs_so_far("federated_users"):
        line = cells.setdefault(run["method"], {})
        line.setdefault(run["epsilon"], []).append(run["accuracies"]["cnn"])
    rows = [
        (name, *(seeds(cells[method].get(each, [])) for each in epsilons))
        for method, name in names.items()
        if method in cells
    ]
    return table(("test accuracy, %", *(f"ε = {each:g}" for each in epsilons)), rows)
