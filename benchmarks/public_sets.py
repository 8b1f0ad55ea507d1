"""Public images of the study, and what is made of them: networks and images are kept on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from learn_data import prepare_data
from privet.public import PublicRows
from privet.recipes.public_ddpm import PublicDdpm, ddpm
from privet.recipes.public_edm import edm
from privet.recipes.releases import Drawn, Images, Labels
from privet.recipes.set_quality import set_quality
from privet.runs.folder_memory import FolderMemory
from privet.runs.run_folder import RunFolder
from public_settings import DATA, SETS, PublicSet
from release_data import encoder, photos

CACHE = Path(tempfile.gettempdir()) / "privet-public-sets"
CLASSES = 10
TEACHERS = {DATA: "photos+letters", "cifar10": "colour"}


def public_images(name: str, folder: Path) -> PublicRows:
    """4% of the training images."""
    rows = prepare_data(name, folder).material.public
    assert rows is not None
    return rows


def fewer(rows: PublicRows, count: int | None) -> PublicRows:
    """Some of them, of every class alike: they lie in no order."""
    if count is None:
        return rows
    by_class = [(rows.targets == each).nonzero().flatten() for each in range(CLASSES)]
    return rows.select(torch.cat([each[: count // CLASSES] for each in by_class]))


def other_images(public: Path, like: PublicRows) -> PublicRows:
    """As many photos of other things, numbered from 0 to 9 by what they show."""
    rows = photos(public, grey=True)
    chosen = rows.select((rows.targets < CLASSES).nonzero().flatten())
    return chosen.sample(min(len(chosen), len(like)), torch.Generator().manual_seed(0))


def images_of(each: PublicSet, folder: Path) -> tuple[PublicRows, float]:
    """A set, and the seconds that it took to make what was not there yet."""
    public, start = public_images(each.data, folder), time.perf_counter()
    if each.system is None:
        return public.select(torch.arange(each.count) % len(public)), 0.0
    # Images are numbered, so that a larger set of the same system begins with the smaller one.
    place = CACHE / next(other.name for other in SETS.values() if other.system == each.system)
    drawn: Drawn | None = None
    parts: list[tuple[Images, Labels]] = []
    number = 0
    while number * each.system.at_once < each.count:
        path = place / f"{number}.npz"
        if not path.exists():
            drawn = drawn or _drawn(each, public)
            _keep(path, drawn, number)
        kept = np.load(path)
        parts.append((kept["x"], kept["y"]))
        number += 1
    images, labels = (np.concatenate(column)[: each.count] for column in zip(*parts, strict=True))
    rows = PublicRows(torch.from_numpy(images), torch.from_numpy(labels))
    return rows, time.perf_counter() - start


def _drawn(each: PublicSet, public: PublicRows) -> Drawn:
    # One folder for a diffusion model, whatever its guidance: w_d teaches nobody anything else.
    folder = RunFolder(CACHE / each.name.partition(",")[0] / "networks", "synthesize")
    folder.path.mkdir(parents=True, exist_ok=True)
    _, height, width, channels = public.inputs.shape
    memory = FolderMemory(folder, (height, width, channels))
    if isinstance(each.system, PublicDdpm):
        return ddpm(public, num_classes=CLASSES, settings=each.system, memory=memory)
    return edm(public, num_classes=CLASSES, settings=each.system, memory=memory)


def _keep(path: Path, drawn: Drawn, number: int) -> None:
    """All of a batch or nothing."""
    images, labels = drawn.batch(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    with draft.open("wb") as file:
        np.savez_compressed(file, x=images, y=labels)
    draft.replace(path)


def measured(each: PublicSet, folder: Path, public: Path) -> dict[str, object]:
    """Make a set and look at it."""
    rows, seconds = images_of(each, folder)
    teachers = TEACHERS[each.data]
    found = set_quality(
        rows,
        prepare_data(each.data, folder).test,
        extractor=encoder(teachers, public),
        name=f"ConvEncoder 32-64-128-128-256, trained on {teachers}",
        seen=public_images(each.data, folder),
    )
    return {**found.to_json(), "made": len(rows), "seconds": round(seconds)}
