"""Claim: a share of a budget for a release and the rest for training, against all for one of them.

    python benchmarks/hybrid.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FOLDER holds mnist.npz and fashion_mnist.npz; the public one letters28.npz. Three ways to spend one
ε on the same private images, with the same public images and the same network: all of it on a
release of SPS-G, which the network then learns from; all of it on private training (warm + DOPE,
among the best of the learning study); or a share on a release, and the rest on training that starts
from its images and has them in its origin. All is small, for a run to take a few minutes of one
core. The rule that proposes the share, and the learning rate (of 0.015 and 0.05), were chosen on
printed letters, which stand in for private images; their runs come last. Every run is written when
it is done, and runs that are there are not done again. The settings below must be committed, and
their commit is kept with each run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import machine
from kept_rows import Kept, arguments, do_missing
from privet.recipes.training import prepare
from privet.runs.listening import Silent
from privet.runs.session import Session
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_run import synthesize
from privet.runs.train_config import Asked
from privet.runs.train_run import train
from privet.runs.train_stage import staged

OUT = machine.RESULTS / "hybrid.json"
SETS, LETTERS = ("mnist", "fashion_mnist"), "letters"
EPSILONS, DELTA = (1.0, 2.0), 1e-5
PRIVATE = {"mnist": 20_000, "fashion_mnist": 20_000, LETTERS: 8000}
PUBLIC = {"mnist": 100, "fashion_mnist": 100, LETTERS: 500}  # of the private classes
SIDES = {"mnist": "28", "fashion_mnist": "28", LETTERS: "16"}
# A step of 20,000 images has 2.5 times less noise than one of 8,000.
LEARNING_RATES = {"mnist": 0.04, "fashion_mnist": 0.04, LETTERS: 0.015}
ENCODERS = {"mnist": "glyphs", "fashion_mnist": "glyphs", LETTERS: "conv"}
RELEASES = "sps-g:generator=upsampling,iterations=150,per_class=8"
IMAGES = 3000  # that are made of a release
VIEWS = 96_000  # of images in every warm-up, as in the learning study
SHARES = ("0.2", "0.5", "0.8")
LETTERS_EPSILONS = (1.0, 4.0)
TRAINING = {"method": "dope", "preset": "cpu-large", "engine": "ghost"}
RELEASE, ALONE, HYBRID = "release", "training", "hybrid"


@dataclass(frozen=True)
class Run:
    """One way to spend ε; the share is of the release."""

    data: str
    method: str
    epsilon: float
    share: str = ""
    seed: int = 0

    @property
    def key(self) -> dict[str, object]:
        """What tells runs apart."""
        return {
            "data": self.data,
            "method": self.method,
            "share": self.share,
            "epsilon": self.epsilon,
            "seed": self.seed,
        }

    @property
    def described(self) -> str:
        """Its settings."""
        rows = f"{PRIVATE[self.data]} private, {PUBLIC[self.data]} public, side {SIDES[self.data]}"
        made = f"{IMAGES} made by {RELEASES}, encoder {ENCODERS[self.data]}"
        return f"{rows}, {made}, {VIEWS} views, {TRAINING}, rate {LEARNING_RATES[self.data]}"


def all_runs() -> Iterator[Run]:
    """Parents and the proposed share first, then other shares, then letters."""
    for epsilon in EPSILONS:
        for data in SETS:
            yield Run(data, ALONE, epsilon)
            yield Run(data, HYBRID, epsilon, "auto")
            yield Run(data, RELEASE, epsilon)
    for epsilon in EPSILONS:
        for share in SHARES:
            yield from (Run(data, HYBRID, epsilon, share) for data in SETS)
    for epsilon in LETTERS_EPSILONS:
        yield Run(LETTERS, ALONE, epsilon)
        yield from (Run(LETTERS, HYBRID, epsilon, share) for share in SHARES)


def do(run: Run, data: Path, public: Path, commit: str) -> Kept:
    """One run and its accuracy."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_rows(run, data, public, folder / "rows.npz")
        found = _released(run, folder) if run.method == RELEASE else _trained(run, folder)
    seconds = round(time.perf_counter() - start)
    return {**found, "seconds": seconds, "settings_commit": commit, "commit": machine.COMMIT}


def _write_rows(run: Run, data: Path, public: Path, path: Path) -> None:
    """Private and public rows, drawn by the seed, and the test rows."""
    rng, count = np.random.default_rng(run.seed), PRIVATE[run.data] + PUBLIC[run.data]
    if run.data == LETTERS:
        stored = np.load(public / "letters28.npz")
        printed = rng.permutation(np.flatnonzero(stored["y"] < 10))
        train, test = printed[:count], printed[count:]
        parts = {
            "train": (stored["x"], stored["y"], train),
            "test": (stored["x"], stored["y"], test),
        }
    else:
        stored = np.load(data / f"{run.data}.npz")
        some = rng.permutation(len(stored["y_train"]))[:count]
        parts = {
            "train": (stored["x_train"], stored["y_train"], some),
            "test": (stored["x_test"], stored["y_test"], np.arange(len(stored["y_test"]))),
        }
    arrays: dict[str, NDArray[np.generic]] = {}
    for part, (images, labels, rows) in parts.items():
        arrays |= {f"x_{part}": images[rows], f"y_{part}": labels[rows]}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _asked(run: Run, folder: Path) -> dict[str, object]:
    rows = str(folder / "rows.npz")
    return {
        "data": rows,
        "public": str(PUBLIC[run.data]),
        "resize": SIDES[run.data],
        "epsilon": run.epsilon,
        "delta": DELTA,
        "declared_size": float(PRIVATE[run.data]),
        "seed": run.seed,
    }


def _training(run: Run, folder: Path, seen: int, **others: object) -> Asked:
    """Of so many images in the warm-up."""
    own = {
        "test": str(folder / "rows.npz"),
        "learning_rate": LEARNING_RATES[run.data],
        "warm_up_epochs": max(1, round(VIEWS / seen)),
    }
    return Asked.of({**_asked(run, folder), **TRAINING, **own, **others})


def _trained(run: Run, folder: Path) -> Kept:
    asked = _training(run, folder, PUBLIC[run.data])
    if run.method == HYBRID:
        asked = _training(
            run,
            folder,
            PUBLIC[run.data] + IMAGES,
            release=run.share,
            release_count=IMAGES,
            release_method=RELEASES,
            encoder=ENCODERS[run.data],
        )
    result = train(asked, Session(out=folder / "run"), Silent())
    summary, before = result.summary, result.summary["test_after_warm_up"]
    return {
        "guarantee": summary["guarantee"],
        "accuracies": {"test": summary["test"]["accuracy"], "before": before["accuracy"]},
        "release": summary.get("release"),
    }


def _released(run: Run, folder: Path) -> Kept:
    """The same network, warmed up on what all of ε bought; and on nothing else."""
    words = {**_asked(run, folder), "method": RELEASES, "encoder": ENCODERS[run.data]}
    made = synthesize(SynthesisAsked.of(words), Session(out=folder / "set"), Silent(), count=IMAGES)
    synthetic = str(folder / "set" / "synthetic")
    seen = PUBLIC[run.data] + IMAGES
    both = _warmed_up(_training(run, folder, seen, synthetic=synthetic))
    alone = _warmed_up(_training(run, folder, IMAGES, synthetic=synthetic, public=None))
    return {
        "guarantee": made.summary["guarantee"],
        "accuracies": {"test": both, "set alone": alone},
    }


def _warmed_up(asked: Asked) -> float:
    stage = staged(asked)
    prepare(stage.network, stage.config.training, stage.material, stage.keys)
    found = stage.measured()
    assert found is not None
    return found.overall


if __name__ == "__main__":
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    frozen = machine.settings_commit("hybrid.py")
    carry_out = partial(do, data=options.data, public=options.public, commit=frozen)
    do_missing(OUT, all_runs(), carry_out, lambda runs: {"delta": DELTA}, options)
