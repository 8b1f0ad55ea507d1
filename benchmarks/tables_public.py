"""Tables of the public side: synthetic public images, and what they help."""

from __future__ import annotations

from table_text import Rows, kept, percent, seeds, table


def public_sets() -> str:
    """How good sets of synthetic public images are."""
    rows = [
        (
            each["name"],
            f"{each['made']:,}",
            percent(each["cas"]),
            f"{each['frechet']:.3g}",
            f"{each['precision']:.2f}",
            f"{each['recall']:.2f}",
            percent(each["memorisation"]),
            percent(each["copies"]),
        )
        for each in kept("public_ladder")["runs"]
        if each["kind"] == "set"
    ]
    head = ("set", "images", "CAS", "Fréchet", "precision", "recall", "nearer to seen", "copies")
    return table(head, rows)


def public_ladder() -> str:
    """Table 1 of IDS."""
    return _public_study("ladder", "FashionMNIST, ε = 2")


def public_studies() -> str:
    """One small table for each table of the papers."""
    runs = [each for each in kept("public_ladder")["runs"] if each["kind"] == "run"]
    names = dict.fromkeys(each["study"] for each in runs if each["study"] != "ladder")
    return "\n".join(_public_study(name, name) for name in names)


def _public_study(study: str, title: str) -> str:
    by_name: dict[str, Rows] = {}
    for each in kept("public_ladder")["runs"]:
        if each["kind"] == "run" and each["study"] == study:
            by_name.setdefault(each["name"], []).append(each)
    rows = [
        (
            name,
            seeds([each["before_private_steps"] for each in runs]),
            seeds([each["accuracy"] for each in runs]),
        )
        for name, runs in by_name.items()
    ]
    return table((title, "after the warm-up", "after private steps"), rows)
