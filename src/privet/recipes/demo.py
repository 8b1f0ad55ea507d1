"""Embedded data, a ledger, one release, a certificate: the whole way in a few seconds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image

from privet.data import ImageSet, load
from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.privacy import Budget, Certificate, Ledger, Relation
from privet.recipes.class_means import (
    Discriminant,
    private_class_means,
    public_discriminant,
)

_COMPONENTS = 48
_LEDGER, _CERTIFICATE, _METRICS, _PICTURE = _RESULTS = (
    "demo-ledger.db",
    "certificate.json",
    "metrics.json",
    "classes.png",
)
_FILES = (*_RESULTS, f"{_LEDGER}-wal", f"{_LEDGER}-shm")


@dataclass(frozen=True, kw_only=True)
class Accuracies:
    """On the held-out test images."""

    public_only: float
    private: float


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What was learned, what it cost and where it lies."""

    folder: Path
    certificate: Certificate
    accuracy: Accuracies


def demo(folder: Path, *, epsilon: float, delta: float, force: bool = False) -> DemoResult:
    """Release private class means of 5,000 digits and classify the held-out ones with them."""
    _check_place(folder, force)
    Budget(epsilon=epsilon, delta=delta)
    data = load("mnist5k").split(public=0.04, test=0.2, seed=0)
    public, test = cast("ImageSet", data.public), cast("ImageSet", data.test)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:  # an earlier demo's, and nothing else
        (folder / name).unlink(missing_ok=True)

    ledger = Ledger.create(
        folder / _LEDGER, epsilon=epsilon, delta=delta, relation=Relation.ADD_REMOVE
    )
    hedge = Hedge(data.private, ledger.reserve(epsilon=epsilon, label="demo"))
    result = private_class_means(hedge, public, num_components=_COMPONENTS)
    hedge.reservation.close()

    baseline = public_discriminant(public, _COMPONENTS)
    accuracy = Accuracies(
        public_only=_accuracy(baseline, test), private=_accuracy(result.model, test)
    )
    _write(folder, result.model, result.certificate, accuracy)
    return DemoResult(folder=folder, certificate=result.certificate, accuracy=accuracy)


def _check_place(folder: Path, force: bool) -> None:
    """Only an earlier demo is ever replaced."""
    if folder.exists() and not (force and folder.is_dir()):
        raise ConfigError(f"{folder} exists already: choose another --out, or add --force.")
    theirs = [name for name in _RESULTS if (folder / name).exists()]
    if theirs and not (folder / _LEDGER).exists():
        raise ConfigError(f"{folder / theirs[0]} is not from a demo: choose another --out.")


def _accuracy(model: Discriminant, test: ImageSet) -> float:
    predicted = model.predict(np.asarray(test.images[:]))
    return float((predicted == test.labels).mean())


def _write(
    folder: Path, model: Discriminant, certificate: Certificate, accuracy: Accuracies
) -> None:
    (folder / _CERTIFICATE).write_text(certificate.dumps())
    (folder / _METRICS).write_text(json.dumps({"test_accuracy": asdict(accuracy)}) + "\n")
    strip = np.concatenate(list(model.pictures()), axis=1).squeeze(-1)
    size = (strip.shape[1] * 3, strip.shape[0] * 3)
    Image.fromarray(strip).resize(size, Image.Resampling.NEAREST).save(folder / _PICTURE)
