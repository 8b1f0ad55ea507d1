"""Claim: a synthetic set made of one noised sum trains good classifiers.

    python benchmarks/release_table.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FOLDER holds mnist.npz, fashion_mnist.npz and cifar10.npz; the public one tiny_imagenet32.parquet
and letters28.npz. Every run is written when it is done, and runs that are there are not done again
(with `--stale`, they are where their settings are others now). Several processes may work on it,
each on its part (`--only " mnist "`). All settings stand in release_settings.py, whose commit is
kept with each run.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from kept_rows import Kept, arguments, do_missing
from privet.data import ImageSet
from privet.measure import Accuracy
from privet.recipes.map_moments import SpsG
from release_classifiers import Examination
from release_data import encoder, frechet, keep_samples, prepared, sets, taught, trainable_encoder
from release_logistic import Vectors, dp_logistic
from release_making import Releases, discriminants, judged, made
from release_settings import (
    COMPONENTS,
    DP_LOGISTIC,
    ENCODERS,
    IMBALANCED,
    REAL,
    Run,
    all_runs,
)

OUT = machine.RESULTS / "release_table.json"


def do(each: Run, data: Path, public: Path) -> Kept:
    """One run of any kind."""
    private, test = sets(each.data, data)
    if each.method in REAL:
        return _real(each, private, test, public)
    if each.method in DP_LOGISTIC:
        return _logistic(each, private, test, public)
    return _synthetic(each, private, test, public)


def _synthetic(each: Run, private: ImageSet, test: ImageSet, public: Path) -> Kept:
    """A synthetic set, every classifier trained on it, and what the release is by itself."""
    system = each.system
    network = taught(each.lessons, public).folded()
    material = prepared(private, network, COMPONENTS[each.data], public, each.images)
    releases = Releases(even=each.method.endswith("-even"))
    found = made(system, private, material, each.terms, releases)
    start = time.perf_counter()
    images, labels = found.synthetic.take(each.images)
    seconds = found.seconds + time.perf_counter() - start
    keep_samples(each.key, images, labels)
    examination = _examination(each, test, public, len(images))
    accuracies = examination.accuracies(images, labels, each.classifiers)
    if isinstance(system, SpsG):
        for name, judge in discriminants(found, system).items():
            accuracies[name] = examination.measured(judged(judge, test))
    return {
        "guarantee": found.guarantee,
        **_told(each, private, accuracies),
        "seconds": round(seconds, 1),
        "images": len(images),
        "iterations": found.iterations(system, each.images),
        "images_per_second": round(len(images) / seconds, 2),
        "frechet": frechet(encoder(ENCODERS[each.data], public), images, test),
    }


def _real(each: Run, private: ImageSet, test: ImageSet, public: Path) -> Kept:
    """The same classifiers, trained on real images: no privacy, and a bound for all."""
    start = time.perf_counter()
    images, labels = _some(private, REAL[each.method])
    examination = _examination(each, test, public, len(images))
    return {
        "guarantee": "none: real images",
        **_told(each, private, examination.accuracies(images, labels, each.classifiers)),
        "seconds": round(time.perf_counter() - start, 1),
        "images": len(images),
        "iterations": None,
    }


def _some(private: ImageSet, count: int | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All images, or some at random."""
    rows = np.random.default_rng(0).permutation(len(private))[:count]
    chosen = private.take(rows)
    return np.ascontiguousarray(chosen.images[:]), np.array(chosen.labels)


def _logistic(each: Run, private: ImageSet, test: ImageSet, public: Path) -> Kept:
    """A private classifier without any images."""
    start, settings = time.perf_counter(), DP_LOGISTIC[each.method]
    vectors = Vectors(each.method.removeprefix("dp-logistic-"), ENCODERS[each.data], public)
    predicted, guarantee = dp_logistic(private, test, vectors, each.terms, settings, seed=each.seed)
    accuracy = _examination(each, test, public, len(private)).measured(predicted)
    return {
        "guarantee": guarantee,
        **_told(each, private, {"logistic": accuracy}),
        "seconds": round(time.perf_counter() - start, 1),
        "images": 0,
        "iterations": round(settings["epochs"] / settings["sampling_rate"]),
    }


def _examination(each: Run, test: ImageSet, public: Path, images: int) -> Examination:
    cnn, fine_tuning = each.trainings(images)
    body = partial(trainable_encoder, ENCODERS[each.data], public)
    return Examination(test=test, body=body, cnn=cnn, fine_tuning=fine_tuning, seed=each.seed)


def _told(each: Run, private: ImageSet, accuracies: dict[str, Accuracy]) -> dict[str, Any]:
    """What is kept of accuracies: by class only where classes differ in size."""
    found: dict[str, Any] = {"accuracies": {kind: own.overall for kind, own in accuracies.items()}}
    if each.data == IMBALANCED:
        found["class_sizes"] = private.class_counts().tolist()
        found["by_class"] = {kind: own.by_class for kind, own in accuracies.items()}
    return found


def rows(runs: list[Kept]) -> list[dict[str, Any]]:
    """Means over seeds, one row for each classifier, with the bound of its method."""
    grouped = defaultdict(list)
    for each in runs:
        key = tuple(each[name] for name in ("data", "method", "epsilon", "relation"))
        grouped[key].append(each)
    found = []
    for (data, method, epsilon, relation), same in grouped.items():
        for kind in dict.fromkeys(kind for each in same for kind in each["accuracies"]):
            having = [each for each in same if kind in each["accuracies"]]
            values = [each["accuracies"][kind] for each in having]
            bound = None if epsilon is None else _bound(runs, data, method, kind)
            found.append(
                {
                    "data": data,
                    "method": method,
                    "epsilon": epsilon,
                    "relation": relation,
                    "classifier": kind,
                    "accuracy": statistics.mean(values),
                    "std": statistics.stdev(values) if len(values) > 1 else None,
                    "seeds": [each["seed"] for each in having],
                    "seconds": statistics.mean(each["seconds"] for each in having),
                    "images": having[-1]["images"],
                    "iterations": having[-1].get("iterations"),
                    "no_noise": bound,
                    "frechet": having[-1].get("frechet"),
                }
            )
    return found


def _bound(runs: list[Kept], data: str, method: str, kind: str) -> float | None:
    """The same without noise, if that was done."""
    values = [
        each["accuracies"][kind]
        for each in runs
        if (each["data"], each["method"], each["epsilon"]) == (data, method, None)
        and kind in each["accuracies"]
    ]
    return statistics.mean(values) if values else None


def main() -> None:
    """Do what is missing."""
    options = arguments(__doc__).parse_args()
    names = ("release_settings.py", "release_data.py")
    settings = None if options.list else machine.settings_commit(*names)
    commits = {"settings": settings, "code": machine.COMMIT}

    def run(each: Run) -> Kept:
        return do(each, options.data, options.public) | commits

    do_missing(OUT, all_runs(), run, lambda runs: {"rows": rows(runs)}, options)


if __name__ == "__main__":
    main()
