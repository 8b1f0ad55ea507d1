"""Claim: images made of a few public ones help private training, and so does what is done to them.

    python benchmarks/public_ladder.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FashionMNIST, 4% public, ε = 2, δ = 1e-5: the ladder of paper 000 (Table 1), and small studies of
papers 000 and 004. Every set and every run is written when it is done, and what is there is not
done again. public_settings.py must be committed; its commit is kept with each run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import machine
from kept_rows import Kept, arguments, do_missing
from learn_data import Prepared
from learn_table import run_row
from public_sets import data, fewer, images_of, measured, other_images, public_images
from public_settings import SETS, PublicSet, Rung, all_tasks

OUT = machine.RESULTS / "public_ladder.json"


def run(task: PublicSet | Rung, *, folder: Path, public: Path, commit: str) -> Kept:
    """A set with its measures, or a private run with its accuracy."""
    commits = {"settings_commit": commit, "commit": machine.COMMIT}
    if isinstance(task, PublicSet):
        return {**measured(task, folder, public), **commits}
    prepared = _prepared(task, folder, public)
    also = f"{task.made} {task.count} {task.public} {task.other}"  # tells warm-ups apart
    found = run_row(replace(task.row, data=f"{task.row.data} {also}"), prepared)
    return {**found, "accuracies": {"test": found["accuracy"]}, **commits}


def _prepared(task: Rung, folder: Path, public: Path) -> Prepared:
    """What a run has beside private images."""
    found, real = data(folder), fewer(public_images(folder), task.public)
    if task.other:
        real = other_images(public, real)
    synthetic = None
    if task.made is not None:
        rows, _ = images_of(SETS[task.made], folder)
        synthetic = fewer(rows, task.count)
    return replace(found, material=replace(found.material, public=real, synthetic=synthetic))


def summary(runs: list[Kept]) -> dict[str, Any]:
    """Sets, and rows by study."""
    sets = [each for each in runs if each["kind"] == "set"]
    rows = [each for each in runs if each["kind"] == "run"]
    return {"sets": len(sets), "rows": len(rows)}


def main() -> None:
    """Run what is missing."""
    options = arguments(__doc__).parse_args()
    commit = machine.settings_commit("public_settings.py", "public_sets.py", "learn_settings.py")
    do = partial(run, folder=options.data, public=options.public, commit=commit)
    do_missing(OUT, all_tasks(), do, summary, options)


if __name__ == "__main__":
    main()
