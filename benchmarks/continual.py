"""Claim: classes that arrive in stages, released stage by stage, are learned without forgetting.

    python benchmarks/continual.py --data FOLDER --public FOLDER [--only TEXT]

As Figure 5(e) of SPS, at a small scale: five stages of two classes of FashionMNIST, each an
SPS-G release of its own 12,000 images at ε = 4 and δ = 1e-5, in a portion of one ledger of ε = 4.
After each stage a CNN learns from all synthetic sets so far, and another one goes on with the new
set alone. Beside them a CNN of one release of all classes at ε = 4. All are tested on real images
of the classes so far. Folders and options are those of release_table.py; rows are kept.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import machine
from kept_rows import Kept, arguments, do_missing
from privet.augment import to_float
from privet.data import ImageSet
from privet.hedge import Hedge
from privet.measure import predictions
from privet.models import ConvEncoder
from privet.privacy import Ledger, Reservation, certify_together
from privet.recipes.synthesis_methods import run as release
from privet.share import train_classifier
from release_ablations import CNN, PRIVATE, PUBLIC, SPS_G, STEPS
from release_classifiers import with_steps
from release_data import encoder, prepared, sets
from release_making import DELTA, Releases, Steps

OUT = machine.RESULTS / "continual.json"
EPSILON, STAGES, IMAGES, SEEDS = 4.0, 5, 5000, (0, 1, 2)
EVERY = 4  # of so many public images, one is for components
STAGED, JOINT = "stages", "joint"

Set = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class Task:
    """All stages, or all classes at once."""

    way: str
    seed: int

    @property
    def key(self) -> dict[str, str | int]:
        """What tells runs apart."""
        return {"way": self.way, "seed": self.seed}

    @property
    def described(self) -> str:
        """All settings."""
        made = f"{SPS_G}, ε = {EPSILON:g}, {IMAGES} images, {STAGES} stages"
        return f"{made}, {STEPS} steps, {CNN}, {EVERY}"


@dataclass(frozen=True)
class Study:
    """Where data lies, and how much of it is taken."""

    data: Path
    public: Path
    most: int | None = None

    def private(self, classes: range) -> ImageSet:
        """Images of some classes, which are all that it knows."""
        whole = sets(PRIVATE, self.data)[0].take(slice(0, self.most))
        assert whole.labels is not None
        assert whole.class_names is not None
        some = whole.take(np.flatnonzero(np.isin(whole.labels, classes)))
        assert some.labels is not None
        names = tuple(whole.class_names[each] for each in classes)
        return ImageSet(some.images, some.labels - classes.start, names)

    def released(self, ledger: Ledger, classes: range, seed: int) -> tuple[Reservation, Set]:
        """A release of a stage in its portion, and images of it."""
        private, count = self.private(classes), IMAGES * len(classes) // self.num_classes
        ledger.declare_portion(f"classes {classes.start} to {classes.stop - 1}")
        reservation = ledger.reserve(epsilon=EPSILON, portion=ledger.portions()[-1])
        hedge = Hedge(private, reservation, declared_size=len(private))
        network = encoder(PUBLIC, self.public)
        material = prepared(private, network, PUBLIC, self.public, count)
        assert material.public is not None
        material = replace(material, public=material.public[::EVERY])
        system = replace(SPS_G, seed=seed)
        images, labels = release(system, hedge, material, Releases(), Steps()).take(count)
        return reservation, (images, labels + classes.start)

    @property
    def num_classes(self) -> int:
        """Of all stages."""
        return sets(PRIVATE, self.data)[0].num_classes

    def network(self, seed: int) -> nn.Sequential:
        """A CNN that has learned nothing."""
        torch.manual_seed(seed)
        body = ConvEncoder(1)
        network = nn.Sequential(body, nn.Linear(body.num_features, self.num_classes))
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def taught(self, network: nn.Sequential, found: Set, seed: int) -> nn.Sequential:
        """The same CNN, after some more images."""
        images, labels = map(torch.from_numpy, found)
        config = with_steps(replace(CNN, seed=seed), len(images), STEPS)
        train_classifier(network, images, labels, config)
        return network

    def accuracies(self, network: nn.Sequential, classes: range) -> list[float]:
        """On real images of each class so far."""
        test = sets(PRIVATE, self.data)[1]
        assert test.labels is not None
        some = test.take(np.flatnonzero(np.isin(test.labels, classes)))
        images = torch.from_numpy(np.asarray(some.images[:]))
        right = predictions(lambda x: network(to_float(x)), images).numpy() == some.labels
        return [float(right[some.labels == each].mean()) for each in classes]


def tasks() -> Iterator[Task]:
    """Every run."""
    for seed in SEEDS:
        yield from (Task(STAGED, seed), Task(JOINT, seed))


def in_stages(study: Study, ledger: Ledger, seed: int) -> Kept:
    """Two classifiers after each stage: of all sets so far, and of one set after the other."""
    size = study.num_classes // STAGES
    runs: dict[str, Reservation] = {}
    so_far: list[Set] = []
    found: dict[str, list[list[float]]] = {"cumulative": [], "fine-tuned": []}
    forgetful = study.network(seed)
    for stage in range(STAGES):
        classes = range(stage * size, (stage + 1) * size)
        runs[f"stage {stage + 1}"], images = study.released(ledger, classes, seed)
        so_far.append(images)
        everything = tuple(np.concatenate(each) for each in zip(*so_far, strict=True))
        cumulative = study.taught(study.network(seed), everything, seed)  # type: ignore[arg-type]
        study.taught(forgetful, images, seed)
        seen = range(classes.stop)
        for name, network in {"cumulative": cumulative, "fine-tuned": forgetful}.items():
            found[name].append(study.accuracies(network, seen))
        means = " ".join(f"{name} {np.mean(each[-1]):.3f}" for name, each in found.items())
        print(f"stage {stage + 1}: {means}", flush=True)
    return _kept(found, runs)


def at_once(study: Study, ledger: Ledger, seed: int) -> Kept:
    """One release of all classes, and one classifier."""
    classes = range(study.num_classes)
    reservation, images = study.released(ledger, classes, seed)
    network = study.taught(study.network(seed), images, seed)
    return _kept({"joint": [study.accuracies(network, classes)]}, {"all classes": reservation})


def _kept(found: dict[str, list[list[float]]], runs: dict[str, Reservation]) -> Kept:
    certificate = certify_together(runs)
    means = {k: [float(np.mean(stage)) for stage in each] for k, each in found.items()}
    return {
        "accuracies": means,
        "by_class": found,
        "epsilon": certificate.guarantee.epsilon,
        "guarantee": str(certificate.guarantee),
    }


def main() -> None:
    """Do what is missing."""
    options = arguments(__doc__).parse_args()
    study = Study(options.data, options.public)

    def run(task: Task) -> Kept:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            ledger = Ledger.create(path, epsilon=EPSILON, delta=DELTA, relation="add-remove")
            found = (in_stages if task.way == STAGED else at_once)(study, ledger, task.seed)
            ledger.close()
        seconds = round(time.perf_counter() - start, 1)
        return found | {"images": IMAGES, "seconds": seconds, "code": machine.COMMIT}

    do_missing(OUT, tasks(), run, lambda _: {}, options)


if __name__ == "__main__":
    main()
