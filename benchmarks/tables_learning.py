"""Tables of private training: the learning study and its ensembles."""

from __future__ import annotations

from table_text import Rows, kept, seeds, table


def learn(data: str) -> str:
    """One line per method of the learning study, a column for each ε."""
    methods: dict[str, Rows] = {}
    for row in learn_rows():
        if row["data"].split("/")[0] == data:
            methods.setdefault(row["name"], []).append(row)
    epsilons = sorted({row["epsilon"] for rows in methods.values() for row in rows} - {None})
    columns = [f"ε = {each:g}" for each in epsilons]
    columns[:1] = ["ε = 1, seed 0", "ε = 1, three seeds"]
    head = ("method", "K", "steps", *columns, "no noise, seed 0")
    return table(head, [_learn_line(name, rows, epsilons) for name, rows in methods.items()])


def _learn_line(name: str, rows: Rows, epsilons: list[float]) -> tuple[str, ...]:
    bounds = [row["no_noise"] for row in rows if "no_noise" in row]
    if rows[0]["epsilon"] is None:
        return (name, "—", "—", *["—"] * (len(epsilons) + 1), seeds([rows[0]["public_only"]]))
    cells = [[row["accuracy"] for row in rows if row["epsilon"] == each] for each in epsilons]
    [first] = [row for row in rows if (row["epsilon"], row["seed"]) == (epsilons[0], 0)]
    cells[:1] = [[first["accuracy"]], cells[0] if len(cells[0]) > 1 else []]
    return (name, str(first["views"]), str(first["steps"]), *map(seeds, cells), seeds(bounds))


def learn_summary() -> str:
    """At ε = 1: without public rows, with them alone, and with both."""
    lines = []
    for data, title in TITLES.items():
        rows = [row for row in learn_rows() if row["data"] == data]
        at_one: dict[str, list[float]] = {}
        for row in rows:
            if row["epsilon"] == 1:
                at_one.setdefault(row["name"], []).append(row["accuracy"])
        [public] = [row["public_only"] for row in rows if row["epsilon"] is None]
        lines.append((title, *map(seeds, ([public], *[at_one[each] for each in SHORT]))))
    return table(("test accuracy, %", "public images only", *SHORT), lines)


def ensembles() -> str:
    """Averages, votes and mean logits of the last weights, and the moving average beside them."""
    lines = []
    for row in learn_rows():
        if "ensembles" not in row:
            continue
        title = TITLES[row["data"]]
        lines.append((title, "moving average 0.999", seeds([row["accuracy"]]), "", ""))
        lines.append((title, "last weights", seeds([row["last"]]), "", ""))
        for name, found in row["ensembles"].items():
            values = [seeds([found[each]]) for each in ("mean_weights", "vote", "mean_logits")]
            lines.append((title, name.replace("_", " "), *values))
    return table(("data", "ensemble", "weights averaged", "majority vote", "mean logits"), lines)


def learn_rows() -> Rows:
    """All rows of the study."""
    return list(kept("learn_table")["rows"].values())


TITLES = {
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
    "cifar10 features: lite0 160": "CIFAR-10, frozen encoder",
}
SHORT = ("cold", "warm", "warm + DOPE")
