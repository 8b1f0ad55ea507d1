"""Claim: part of a budget spent on a release makes the rest of it go further in training.

    python benchmarks/hybrid.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FOLDER holds mnist.npz and fashion_mnist.npz; the public one letters28.npz. Three ways to spend one
ε on the same private images, with the same public images and the same network: all of it on a
release of SPS-G, which the network then learns from; all of it on private training (warm + DOPE,
the best of the learning study); or a share on a release, and the rest on training that starts from
its images and has them in its origin. The rule that proposes the share was chosen on printed
letters, which stand in for private images; runs on these are kept too. Every run is written when it
is done, and runs that are there are not done again. The settings below must be committed, and their
commit is kept with each run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import machine
from kept_rows import Kept, arguments, do_missing
from privet.recipes.private_training import prepare
from privet.recipes.run import Session, train
from privet.recipes.run_config import Asked
from privet.recipes.run_log import News
from privet.recipes.run_stage import staged
from privet.recipes.synthesis_config import SynthesisAsked
from privet.recipes.synthesis_run import synthesize

OUT = machine.RESULTS / "hybrid.json"
SETS, LETTERS = ("mnist", "fashion_mnist"), "letters"
EPSILONS, DELTA = (1.0, 2.0), 1e-5
PRIVATE = {"mnist": 20_000, "fashion_mnist": 20_000, LETTERS: 8000}
# A third of the usual training sets, for time; glyphs have seen printed letters, so that these
# are looked at by an encoder that knows their public images alone.
ENCODERS = {"mnist": "glyphs", "fashion_mnist": "glyphs", LETTERS: "conv"}
PUBLIC = 500  # of the private classes
IMAGES = 5000  # that are made of a release
SHARES = ("0.2", "0.5", "0.8")
LETTERS_EPSILONS = (0.5, 1.0, 2.0, 4.0)
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
        rows = f"{PRIVATE[self.data]} private, {PUBLIC} public, {IMAGES} made"
        return f"{rows}, encoder {ENCODERS[self.data]}, {TRAINING}"


def all_runs() -> Iterator[Run]:
    """Parents and the proposed share first, then other shares, then letters."""
    for share, method in (("", ALONE), ("auto", HYBRID), ("", RELEASE)):
        for epsilon in EPSILONS:
            yield from (Run(data, method, epsilon, share) for data in SETS)
    for epsilon in EPSILONS:
        for share in SHARES:
            yield from (Run(data, HYBRID, epsilon, share) for data in SETS)
    for epsilon in LETTERS_EPSILONS:
        yield from (Run(LETTERS, HYBRID, epsilon, share) for share in SHARES)


class Silent:
    """Nobody listens."""

    def note(self, sentence: str) -> None:
        """In vain."""

    def step(self, news: News) -> None:
        """In vain."""

    def progress(self, name: str) -> Callable[[int, int], None]:
        """In vain."""
        return lambda done, total: None

    def stopping(self) -> None:
        """In vain."""


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
    rng, count = np.random.default_rng(run.seed), PRIVATE[run.data] + PUBLIC
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
        "public": str(PUBLIC),
        "epsilon": run.epsilon,
        "delta": DELTA,
        "declared_size": float(PRIVATE[run.data]),
        "seed": run.seed,
    }


def _training(run: Run, folder: Path, **others: object) -> Asked:
    rows = str(folder / "rows.npz")
    return Asked.of({**_asked(run, folder), "test": rows, **TRAINING, **others})


def _trained(run: Run, folder: Path) -> Kept:
    hybrid = {
        "release": run.share,
        "release_count": IMAGES,
        "encoder": ENCODERS[run.data],
    }
    asked = _training(run, folder, **(hybrid if run.method == HYBRID else {}))
    result = train(asked, Session(out=folder / "run"), Silent())
    summary, before = result.summary, result.summary["test_after_warm_up"]
    return {
        "guarantee": summary["guarantee"],
        "accuracies": {"test": summary["test"]["accuracy"], "before": before["accuracy"]},
        "release": summary.get("release"),
    }


def _released(run: Run, folder: Path) -> Kept:
    """The same network, warmed up on what all of ε bought; and on nothing else."""
    words = {**_asked(run, folder), "method": "sps-g", "encoder": ENCODERS[run.data]}
    made = synthesize(SynthesisAsked.of(words), Session(out=folder / "set"), Silent(), count=IMAGES)
    synthetic = str(folder / "set" / "synthetic")
    both = _warmed_up(_training(run, folder, synthetic=synthetic))
    alone = _warmed_up(_training(run, folder, synthetic=synthetic, public=None))
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
