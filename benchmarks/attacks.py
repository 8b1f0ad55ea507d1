"""Claim: attacks that work on models without privacy find next to nothing at small ε.

    python benchmarks/attacks.py --data FOLDER [--only TEXT]

Membership inference (LiRA and one threshold) on 16 models for each level, each of a random half of
1,000 images of FashionMNIST; nearest neighbours of 500 synthetic images of SPS-G, with planted
copies to see that they are found. FOLDER holds fashion_mnist.npz. Rows are kept; the picture
docs/images/attacks.png is drawn from them. Synthesis takes the most time.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import machine
from kept_rows import Kept, arguments, do_missing
from privet.audit.attacks import (
    AttackPlan,
    Candidates,
    attacked_copies,
    attacked_models,
    attacked_set,
)
from privet.audit.extraction import SetMaking
from privet.audit.membership import Allowed
from privet.audit.trials import unheard
from privet.data import load

OUT = machine.RESULTS / "attacks.json"
PICTURE = machine.ROOT / "docs" / "images" / "attacks.png"
MAKING = SetMaking(images=500, iterations=100)
PLAN = AttackPlan(epsilons=(8.0, 2.0, 1.0), delta=1e-5, models=16, examples=1000, making=MAKING)
MEMBERSHIP, EXTRACTION = "membership", "extraction"
COPIES, NONE = "copies", "none"
COLOURS = {None: "#b2182b", 8.0: "#e08214", 2.0: "#8073ac", 1.0: "#2166ac"}


@dataclass(frozen=True)
class Task:
    """One level of one attack."""

    attack: str
    at: str

    @property
    def key(self) -> dict[str, str]:
        """What tells rows apart."""
        return {"attack": self.attack, "at": self.at}

    @property
    def described(self) -> str:
        """All settings."""
        return repr(PLAN)


def tasks() -> Iterator[Task]:
    """Quick ones first."""
    yield from (Task(MEMBERSHIP, each) for each in (NONE, "8", "2", "1"))
    yield from (Task(EXTRACTION, each) for each in (COPIES, NONE, "8", "1"))


def run(candidates: Candidates, task: Task) -> Kept:
    """One level."""
    start = time.process_time()
    epsilon = float(task.at) if task.at not in (NONE, COPIES) else None
    if task.attack == MEMBERSHIP:
        level = attacked_models(candidates, PLAN, epsilon, unheard)
    elif task.at == COPIES:
        level = attacked_copies(candidates, PLAN, MAKING)
    else:
        level = attacked_set(candidates, PLAN, MAKING, epsilon, unheard)
    found = level.to_json(np.random.default_rng(0))
    return {**found, "seconds": round(time.process_time() - start, 1), "code": machine.COMMIT}


def draw(rows: list[Kept]) -> None:
    """Curves on logarithmic axes, and nearest neighbours."""
    mpl.use("agg")
    models, sets = (
        [row for row in rows if row["attack"] == each] for each in (MEMBERSHIP, EXTRACTION)
    )
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    curves(left, models)
    neighbours(right, sets)
    figure.savefig(PICTURE, dpi=100)
    print(f"wrote {PICTURE.name}")


def curves(axes: Axes, models: list[Kept]) -> None:
    """One for each level, with the most that its ε allows."""
    rates = np.geomspace(1e-3, 1, 200)
    for row in models:
        colour, points = COLOURS[row["epsilon"]], np.array(row["attacks"]["LiRA"]["curve"])
        axes.plot(points[:, 0], np.maximum(points[:, 1], 1e-3), color=colour, label=row["level"])
        if row["epsilon"] is not None:
            allowed = Allowed(row["epsilon"], row["delta"])
            axes.plot(rates, [allowed.hits(each) for each in rates], "--", color=colour, lw=1)
    axes.plot(rates, rates, color="#999999", lw=1, label="chance")
    axes.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1.05))
    axes.set(xlabel="false alarms", ylabel="members found", title="LiRA; dashed: the most ε allows")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="lower right")


def neighbours(axes: Axes, sets: list[Kept]) -> None:
    """For each level a line of synthetic images, one of nearest members, one of nearest others."""
    bands = [_band(row["pairs"]) for row in sets]
    gap = np.full((6, bands[0].shape[1]), 255, np.uint8)
    axes.imshow(np.concatenate([part for band in bands for part in (band, gap)][:-1]), cmap="gray")
    middle = [(len(bands[0]) + len(gap)) * place + len(bands[0]) / 2 for place in range(len(bands))]
    axes.set_yticks(middle, [row["level"] for row in sets])
    axes.set(xticks=[], title="each: synthetic, nearest member, nearest other")
    axes.spines[:].set_visible(False)


def _band(pairs: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    pixels = np.frombuffer(base64.b64decode(pairs["pixels"]), np.uint8).reshape(pairs["shape"])
    count, kinds, height, width, _ = pixels.shape
    lines: np.ndarray[Any, np.dtype[np.uint8]] = pixels[..., 0].transpose(1, 2, 0, 3)
    return lines.reshape(kinds * height, count * width)


def main() -> None:
    """Do what is missing, and draw what there is."""
    options = arguments(__doc__, public=False).parse_args()
    candidates = Candidates.of(load(options.data / "fashion_mnist.npz"), PLAN)
    summary = {"examples": PLAN.examples, "models": PLAN.models, "delta": PLAN.delta}
    do_missing(OUT, tasks(), lambda task: run(candidates, task), lambda _: summary, options)
    rows = json.loads(OUT.read_text())["runs"] if OUT.exists() else []
    if {row["attack"] for row in rows} == {MEMBERSHIP, EXTRACTION}:
        draw(rows)


if __name__ == "__main__":
    main()
