"""Does a smaller Fréchet distance mean a better classifier? A plot over all runs of the study.

    python benchmarks/release_scatter.py

Draws docs/images/release-scatter.png from release_table.json, as Figure 3 of SPS does for
FID: one panel for each data set, one mark for each run, its shape the method, its colour ε. One
more panel has the short runs of release_ablations.json: generated sets, and those made by pixels.
"""

from __future__ import annotations

import json
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import machine

OUT = machine.ROOT / "docs" / "images" / "release-scatter.png"
TITLES = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR-10"}
MARKS = {
    "sps-g": "o",
    "sps": "s",
    "sps-plus": "P",
    "dp-mepf": "^",
    "dp-mepf-1": "v",
    "dp-merf": "D",
}
_FEW = 1000
COLOURS = {0.2: "#b2182b", 1.0: "#e08214", 2.0: "#8073ac", 10.0: "#2166ac", None: "#555555"}


def points(runs: list[dict[str, Any]], data: str) -> list[tuple[str, float | None, float, float]]:
    """Method, ε, distance and accuracy of the CNN, of every run that has both."""
    return [
        (each["method"], each["epsilon"], each["frechet"], 100 * each["accuracies"]["cnn"])
        for each in runs
        if each["data"] == data and each.get("frechet") and "cnn" in each["accuracies"]
    ]


def panel(axes: Axes, title: str, found: list[tuple[str, float | None, float, float]]) -> None:
    """One data set."""
    for method, epsilon, distance, score in found:
        axes.scatter(distance, score, marker=MARKS[method], color=COLOURS[epsilon], s=36)
    finish(axes, title)


def finish(axes: Axes, title: str) -> None:
    """Scales and words."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set(title=title, xlabel="Fréchet distance", ylabel="accuracy of a CNN, %")
    axes.grid(alpha=0.3)


def ablations(axes: Axes) -> None:
    """Short runs on FashionMNIST, of a few thousand generated images or a few hundred by pixels."""
    kept = machine.RESULTS / "release_ablations.json"
    runs = json.loads(kept.read_text())["runs"] if kept.exists() else []
    found = [each for each in runs if "frechet" in each]
    for name, mark, few in (("generated", "o", False), ("by pixels", "s", True)):
        some = [each for each in found if (each["images"] < _FEW) is few]
        distances = [each["frechet"] for each in some]
        scores = [100 * each["accuracies"]["cnn"] for each in some]
        axes.scatter(distances, scores, marker=mark, s=36, label=name)
    axes.legend(frameon=False, fontsize="small")
    finish(axes, "FashionMNIST, short runs")


def legend(axes: Axes) -> None:
    """Marks for methods, colours for ε."""
    for method, mark in MARKS.items():
        axes.scatter([], [], marker=mark, color="black", label=method)
    for epsilon, colour in COLOURS.items():
        label = "no noise" if epsilon is None else f"ε = {epsilon:g}"
        axes.scatter([], [], marker="o", color=colour, label=label)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize="small")


def main() -> None:
    """Draw what there is."""
    runs = json.loads((machine.RESULTS / "release_table.json").read_text())["runs"]
    found = {data: points(runs, data) for data in TITLES}
    having = {data: each for data, each in found.items() if each}
    if not having:
        raise SystemExit("No run has a Fréchet distance yet: run release_table.py first.")
    mpl.use("agg")
    figure = Figure(figsize=(4 * len(having) + 5.4, 3.4), layout="constrained")
    first, *panels = figure.subplots(1, len(having) + 1, squeeze=False)[0]
    ablations(first)
    for axes, (data, each) in zip(panels, having.items(), strict=True):
        panel(axes, TITLES[data], each)
    legend(panels[-1])
    figure.savefig(OUT, dpi=110)
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
