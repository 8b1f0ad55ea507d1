"""Claim: images made of a few public ones help private training, and so does what is done to them.

    python benchmarks/public_ladder.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FashionMNIST, 4% public, ε = 2, δ = 1e-5: the ladder of IDS (Table 1), and small studies of
IDS and DOPE-SGD. Every set and every run is written when it is done, and what is there is not
done again. public_settings.py must be committed; its commit is kept with each run.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import machine
from kept_rows import Kept, arguments, do_missing
from learn_data import Prepared, prepare_data
from learn_table import run_row
from privet.augment import to_float
from privet.measure import accuracy, curvature, predictions
from privet.public import PublicRows, warm_up
from public_sets import fewer, images_of, measured, other_images, public_images
from public_settings import SETS, PublicSet, Rung, WarmedUp, all_tasks

OUT = machine.RESULTS / "public_ladder.json"


CURVED = 512  # rows of each set whose loss is looked at


def run(task: PublicSet | Rung | WarmedUp, *, folder: Path, public: Path, commit: str) -> Kept:
    """A set with its measures, a private run with its accuracy, or a warm-up with its."""
    commits = {"settings_commit": commit, "commit": machine.COMMIT}
    if isinstance(task, PublicSet):
        return {**measured(task, folder, public), **commits}
    if isinstance(task, WarmedUp):
        return {**_warmed_up(task, folder), **commits}
    prepared = _prepared(task, folder, public)
    also = f"{task.made} {task.count} {task.public} {task.other}"  # tells warm-ups apart
    found = run_row(replace(task.row, data=f"{task.row.data} {also}"), prepared)
    return {**found, "accuracies": {"test": found["accuracy"]}, **commits}


def _prepared(task: Rung, folder: Path, public: Path) -> Prepared:
    """What a run has beside private images."""
    name = task.row.data
    found, real = prepare_data(name, folder), fewer(public_images(name, folder), task.public)
    if task.other:
        real = other_images(public, real)
    synthetic = None
    if task.made is not None:
        rows, _ = images_of(SETS[task.made], folder)
        synthetic = fewer(rows, task.count)
    return replace(found, material=replace(found.material, public=real, synthetic=synthetic))


def _warmed_up(task: WarmedUp, folder: Path) -> Kept:
    """Accuracy after it, and how sharp the loss is there."""
    found, model = prepare_data(task.data, folder), task.model()
    sets = {"public": public_images(task.data, folder)}
    if task.made is not None:
        sets["synthetic"], _ = images_of(SETS[task.made], folder)
    everything = PublicRows(
        torch.cat([each.inputs for each in sets.values()]),
        torch.cat([each.targets for each in sets.values()]),
    )
    warm_up(model, everything, task.config, generator=torch.Generator().manual_seed(task.seed))
    model.eval()
    predicted = predictions(lambda images: model(to_float(images)), found.test.inputs)
    share = accuracy(predicted, found.test.targets, 10).overall
    kept: Kept = {"accuracy": share, "accuracies": {"test": share}}
    if task.curvature:  # the data of a benchmark are not private
        sets["private"] = found.private
        kept["curvature"] = {name: _curvature(model, rows) for name, rows in sets.items()}
    return kept


def _curvature(model: nn.Module, rows: PublicRows) -> dict[str, Any]:
    some = rows.sample(CURVED, torch.Generator().manual_seed(0))
    batches = [(to_float(some.inputs), some.targets)]
    found = curvature(model, nn.functional.cross_entropy, lambda: batches)
    return {**asdict(found), "ratio": found.ratio}


def summary(runs: list[Kept]) -> dict[str, Any]:
    """Sets, and rows by study."""
    sets = [each for each in runs if each["kind"] == "set"]
    rows = [each for each in runs if each["kind"] != "set"]
    return {"sets": len(sets), "rows": len(rows)}


def main() -> None:
    """Run what is missing."""
    options = arguments(__doc__).parse_args()
    commit = machine.settings_commit("public_settings.py", "public_sets.py", "learn_settings.py")
    do = partial(run, folder=options.data, public=options.public, commit=commit)
    do_missing(OUT, all_tasks(), do, summary, options)


if __name__ == "__main__":
    main()
