"""Tables of synthetic sets: the release study and its ablations."""

from __future__ import annotations

from typing import Any

from table_text import kept, percent, table


def releases() -> str:
    """Accuracy of classifiers that synthetic sets trained, and of what stands beside them."""
    grouped: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in kept("release_table")["rows"]:
        key = tuple(row[name] for name in ("data", "method", "epsilon", "relation"))
        if row["data"] in DATA and (row["epsilon"] is not None or row["method"] in _REAL):
            grouped.setdefault(key, {})[row["classifier"]] = row

    def place(key: tuple[Any, ...]) -> tuple[float, ...]:
        return _place(DATA, key[0]), _place(METHODS, key[1]), key[2] or 0.0

    heads = ("data", "method", "ε", "relation", *KINDS.values(), "no noise", "images", "seconds")
    lines = [_release_line(key, grouped[key]) for key in sorted(grouped, key=place)]
    return table(heads, lines)


def release_summary() -> str:
    """SPS-G's images and a CNN that saw nothing else, beside the best that others published."""
    found = {
        (row["data"], row["epsilon"]): row
        for row in kept("release_table")["rows"]
        if row["method"] == "sps-g" and row["classifier"] == "cnn"
    }
    lines = [
        (
            DATA[data],
            *(spread(found[data, each]) for each in (0.2, 1.0, 10.0)),
            *_PUBLISHED[data],
        )
        for data in _PUBLISHED
    ]
    heads = ("test accuracy, %", "ε = 0.2", "ε = 1", "ε = 10")
    return table((*heads, "best published, ε = 1", "ε = 10"), lines)


_PUBLISHED = {"mnist": ("95.6", "98.1"), "fashion_mnist": ("81.7", "87.3")}  # DPImageBench


def _release_line(key: tuple[Any, ...], kinds: dict[str, Any]) -> tuple[str, ...]:
    data, method, epsilon, relation = key
    [first, *_] = kinds.values()
    judged = "encoder" if data == "cifar10" else "cnn"
    bound = kinds.get(judged, first).get("no_noise")
    return (
        DATA[data],
        METHODS.get(method, method),
        "none" if epsilon is None else f"{epsilon:g}",
        "" if epsilon is None else relation,
        *(spread(kinds[kind]) if kind in kinds else "" for kind in KINDS),
        percent(bound),
        f"{first['images']:,}" if first["images"] else "",
        f"{first['seconds']:.0f}",
    )


DATA = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR-10"}
_REAL = {"real": "all real images", "real-10000": "10,000 real images"}
METHODS = {
    "sps-g": "SPS-G",
    "sps-plus": "SPS+",
    "sps": "SPS",
    "dp-mepf": "DP-MEPF (φ₁, φ₂)",
    "dp-mepf-1": "DP-MEPF (φ₁)",
    "dp-merf": "DP-MERF",
    "dp-logistic-pixels": "DP logistic regression of pixels",
    "dp-logistic-features": "DP logistic regression of features",
    **_REAL,
}
KINDS = {
    "logistic": "logistic",
    "mlp": "MLP",
    "cnn": "CNN",
    "encoder": "fine-tuned encoder",
    "discriminant": "moments alone",
}


def _place(names: dict[str, str], name: str) -> int:
    return list(names).index(name) if name in names else len(names)


def spread(row: dict[str, Any]) -> str:
    """The mean, and how far seeds lie apart."""
    mean = percent(row["accuracy"])
    return mean if row["std"] is None else f"{mean} ± {100 * row['std']:.1f}"


def release_imbalance() -> str:
    """By class, where classes go from large to small: released counts, and one size for all."""
    runs = [each for each in kept("release_table")["runs"] if "by_class" in each]
    sizes = [f"{size:,}" for size in runs[0]["class_sizes"]] if runs else []
    rows = []
    for each in runs:
        shares = each["by_class"]["cnn"]
        values = (each["accuracies"]["cnn"], min(shares), *shares)
        method = "one size for all (N/C)" if each["method"].endswith("-even") else "released counts"
        rows.append((method, *map(percent, values)))
    return table(("moments over", "all classes", "worst", *sizes), rows)


def release_ablations() -> str:
    """One small table for each table of the papers."""
    body = kept("release_ablations")
    tables = []
    for key, title in body["titles"].items():
        runs = [each for each in body["runs"] if each["table"] == key]
        kinds = [kind for kind in KINDS if any(kind in each["accuracies"] for each in runs)]
        rows = [
            (each["row"], *(percent(each["accuracies"].get(kind)) for kind in kinds))
            for each in runs
        ]
        if rows:
            tables.append(table((title, *(KINDS[kind] for kind in kinds)), rows))
    return "\n".join(tables)
