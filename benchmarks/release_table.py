"""Claim: a synthetic set made of one noised sum trains good classifiers.

    python benchmarks/release_table.py --data FOLDER --public FOLDER [--only TEXT] [--minutes M]

FOLDER holds mnist.npz, fashion_mnist.npz and cifar10.npz; the public one tiny_imagenet32.parquet
and letters28.npz. Every run is written when it is done, and runs that are there are not done again.
All settings stand in release_settings.py, whose commit is kept with each run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

import machine
from privet.augment import to_float
from privet.data import ImageSet, load
from privet.hedge import Hedge, Randomness
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.recipes.releases import NoMemory
from privet.recipes.synthesis_methods import Prepared, run
from privet.share import ClassifierTraining, train_classifier
from release_data import encoder, public_rows, trainable_encoder
from release_settings import (
    CLASSIFIERS,
    CNN,
    COMPONENTS,
    DELTA,
    ENCODERS,
    FINE_TUNING,
    NO_NOISE,
    Run,
    all_runs,
)

OUT = machine.RESULTS / "release_table.json"


class Silence(Randomness):
    """No noise, for upper bounds: benchmark data is not private."""

    def __init__(self) -> None:
        super().__init__(seed=0)

    def noise(self, stream: int, step: int, block: int, shape: torch.Size) -> Tensor:
        """None."""
        return torch.zeros(shape, dtype=torch.float64)


@lru_cache(maxsize=1)
def _sets(name: str, folder: Path) -> tuple[ImageSet, ImageSet]:
    return load(folder / f"{name}.npz"), load(folder / f"{name}.npz", part="test")


def do(each: Run, data: Path, public: Path) -> dict[str, Any]:
    """One synthetic set and every classifier trained on it."""
    private, test = _sets(each.data, data)
    name = ENCODERS[each.data]
    prepared = Prepared(
        image_shape=private.image_shape,
        num_classes=private.num_classes,
        encoder=encoder(name, public),
        public=public_rows(COMPONENTS[each.data], public).inputs,
        count=each.images,
    )
    start = time.perf_counter()
    images, labels, facts = _synthetic(each, private, prepared)
    seconds = time.perf_counter() - start
    found = {
        kind: _accuracy(kind, images, labels, test, name, public, each.seed) for kind in CLASSIFIERS
    }
    return {
        **each.key,
        **facts,
        "accuracies": found,
        "seconds": round(seconds, 1),
        "images": len(images),
        "images_per_second": round(len(images) / seconds, 2),
    }


def _synthetic(
    each: Run, private: ImageSet, prepared: Prepared
) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, Any]]:
    epsilon = each.epsilon or 1.0
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=epsilon, delta=DELTA, relation=each.relation
        )
        silent = each.epsilon == NO_NOISE
        randomness = Silence() if silent else Randomness()
        hedge = Hedge(
            private,
            ledger.reserve(epsilon=epsilon),
            declared_size=len(private),
            randomness=randomness,
        )
        made = run(each.system, hedge, prepared, NoMemory(), lambda done, total: None)
        images, labels = made.take(each.images)
        guarantee = "no noise" if silent else str(made.certificate.guarantee)
        ledger.close()
    return images, labels, {"guarantee": guarantee}


def _accuracy(
    kind: str,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    test: ImageSet,
    name: str,
    public: Path,
    seed: int,
) -> float:
    """Of one classifier, on the real test images."""
    tests, truth = np.asarray(test.images[:]), test.labels
    if kind in ("logistic", "mlp"):
        return _sklearn(kind, images, labels, tests, truth, seed)
    channels = images.shape[3]
    torch.manual_seed(seed)
    body = ConvEncoder(channels) if kind == "cnn" else trainable_encoder(name, public)
    network = nn.Sequential(body, nn.Linear(body.num_features, int(labels.max()) + 1))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    config: ClassifierTraining = CNN if kind == "cnn" else FINE_TUNING
    train_classifier(network, torch.from_numpy(images), torch.from_numpy(labels), config)
    with torch.inference_mode():
        batches = torch.split(torch.from_numpy(tests), 500)
        predicted = torch.cat([network(to_float(batch)).argmax(1) for batch in batches])
    return float((predicted.numpy() == truth).mean())


def _sklearn(kind: str, images: Any, labels: Any, tests: Any, truth: Any, seed: int) -> float:
    model = (
        LogisticRegression(max_iter=200)
        if kind == "logistic"
        else MLPClassifier(random_state=seed, early_stopping=True)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(images.reshape(len(images), -1) / 255, labels)
    return float((model.predict(tests.reshape(len(tests), -1) / 255) == truth).mean())


def rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over seeds, one row for each classifier."""
    grouped = defaultdict(list)
    for each in runs:
        key = tuple(each[name] for name in ("data", "method", "epsilon", "relation"))
        grouped[key].append(each)
    found = []
    for (data, method, epsilon, relation), same in grouped.items():
        for kind in CLASSIFIERS:
            values = [each["accuracies"][kind] for each in same]
            found.append(
                {
                    "data": data,
                    "method": method,
                    "epsilon": epsilon,
                    "relation": relation,
                    "classifier": kind,
                    "accuracy": statistics.mean(values),
                    "std": statistics.stdev(values) if len(values) > 1 else None,
                    "seeds": [each["seed"] for each in same],
                    "seconds": statistics.mean(each["seconds"] for each in same),
                    "images": same[0]["images"],
                }
            )
    return found


def main() -> None:
    """Do what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--public", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=1e9)
    options = parser.parse_args()
    settings = machine.settings_commit("release_settings.py", "release_data.py")
    done = json.loads(OUT.read_text())["runs"] if OUT.exists() else []
    start = time.monotonic()
    for each in all_runs():
        words = f" {' '.join(map(str, each.key.values()))} "
        known = any(all(old[k] == v for k, v in each.key.items()) for old in done)
        if known or options.only not in words:
            continue
        if time.monotonic() - start > 60 * options.minutes:
            break
        found = do(each, options.data, options.public)
        done.append({**found, "settings": settings, "code": machine.COMMIT})
        machine.write(
            OUT,
            {"name": "release_table", "rows": rows(done), "runs": done, "machine": machine.facts()},
        )
        print(words, found["accuracies"], f"{found['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
