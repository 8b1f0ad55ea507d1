"""Claim: with a few public images, private training is far better than without.

    python benchmarks/learn_table.py --data FOLDER [--only TEXT] [--minutes M]

FOLDER holds mnist.npz, fashion_mnist.npz and cifar10.npz. Every row is written when it is done, and
rows that are there are not run again, so that the study can stop at any time. The settings of all
rows stand in learn_settings.py; that file must be committed, and its commit is kept with each row:
no setting was chosen on the test images.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import machine
from learn_data import Prepared, prepare_data
from learn_settings import Row, all_rows
from privet.hedge import Blocks, Hedge, NoisySum, PoissonSum, Summand, clipped_sum
from privet.learn import Keys, Progress, train
from privet.learn.ensemble import mean_logits, mean_weights, vote_shares
from privet.learn.equation import INPUTS, TARGETS, units_of
from privet.learn.gradients import at_weights, copied, trainable
from privet.measure import accuracy, predictions
from privet.privacy import Ledger
from privet.public import PublicRows
from privet.recipes.training import begin_training, equation_for, expected_rows, prepare, take_steps
from privet.recipes.training_config import TrainingConfig

OUT = machine.RESULTS / "learn_table.json"
DELTA = 1e-5
_WARM: dict[str, Blocks] = {}  # weights after each warm-up: many rows share one


class NoiselessSteps:
    """The same steps without noise, for upper bounds: benchmark data is not private."""

    def __init__(self, rows: PublicRows, mechanism: PoissonSum, seed: int, size: int) -> None:
        self._rows, self._rng, self._size = rows, np.random.default_rng(seed), size
        self.mechanism, self.remaining = mechanism, 10**9

    def step(self, summand: Summand) -> NoisySum:
        """A clipped sum over a Poisson sample."""
        joined = self._rng.random(len(self._rows)) < self.mechanism.sampling_rate
        chosen = torch.from_numpy(np.flatnonzero(joined))
        batches = (units_of(self._rows.select(part)) for part in torch.split(chosen, self._size))
        total = clipped_sum(batches, summand, self.mechanism.clip_norm)
        return NoisySum({name: block.float() for name, block in total.items()}, 0.0)


def run_row(row: Row, data: Prepared) -> dict[str, Any]:
    """One private run, its accuracy and its bound without noise."""
    start = time.perf_counter()
    found = _private(row, data) if row.epsilon is not None else {}
    if row.bound:
        found["no_noise"] = _without_noise(row, data)
    if row.epsilon is None and not row.bound:
        found["public_only"] = _public_only(row, data)
    return found | {"seconds": round(time.perf_counter() - start)}


def _started(row: Row, data: Prepared) -> tuple[nn.Module, TrainingConfig]:
    """A model that is warm already, and the settings that are left for it."""
    model, left = row.model(row.seed), replace(row.config, warm_up=None)
    if row.config.warm_up is not None:
        key = repr((row.data, row.seed, row.config.seed, row.config.warm_up))
        if key not in _WARM:
            prepare(model, replace(left, warm_up=row.config.warm_up), data.material, _keys(row))
            _WARM[key] = copied(trainable(model))
        model.load_state_dict(_WARM[key], strict=False)
    return model, left


def _keys(row: Row) -> Keys:
    return Keys(row.config.seed)


def _private(row: Row, data: Prepared) -> dict[str, Any]:
    assert row.epsilon is not None
    model, config = _started(row, data)
    keys = _keys(row)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=row.epsilon, delta=DELTA, relation="add-remove"
        )
        columns = {INPUTS: data.private.inputs.numpy(), TARGETS: data.private.targets.numpy()}
        hedge = Hedge(columns, ledger.reserve(epsilon=row.epsilon), declared_size=len(data.private))
        started = begin_training(hedge, model, config, data.material, keys=keys)
        before = _score(model, started.progress.average, data)
        trained = take_steps(hedge, model, config, data.material, started, keys=keys)
        guarantee = str(trained.certificate.guarantee)
        ledger.close()
    return {
        "guarantee": guarantee,
        "noise_multiplier": started.mechanism.noise_multiplier,
        "engine": started.engine.engine.name.value,
        "parameters": sum(block.numel() for block in trained.average.values()),
        "before_private_steps": before,
        "last": _score(model, trained.progress.state.weights, data),
        "accuracy": _score(model, trained.average, data),
        **_ensembles(model, trained.progress, data),
    }


def _without_noise(row: Row, data: Prepared) -> float:
    """The same training on the same rows with clipping but no noise."""
    model, config = _started(row, data)
    keys = _keys(row)
    mechanism = PoissonSum(
        clip_norm=config.clip_norm, noise_multiplier=1.0, sampling_rate=config.sampling_rate
    )
    engine = prepare(model, config, data.material, keys).engine
    divisor = expected_rows(config, data.material, len(data.private))
    equation = equation_for(model, config, data.material, keys, divisor, engine)
    steps = NoiselessSteps(data.private, mechanism, row.seed, engine.physical_batch)
    start = Progress.start(dict(trainable(model)))
    progress = train(equation, steps, config.course, start)  # type: ignore[arg-type]
    return _score(model, progress.average, data)


def _public_only(row: Row, data: Prepared) -> float:
    model, _ = _started(row, data)
    return _score(model, dict(trainable(model)), data)


def _score(model: nn.Module, weights: Blocks, data: Prepared) -> float:
    with at_weights(model, weights):
        predicted = predictions(lambda inputs: model(data.ready(inputs)), data.test.inputs)
    return accuracy(predicted, data.test.targets, data.material.num_classes).overall


def _ensembles(model: nn.Module, progress: Progress, data: Prepared) -> dict[str, Any]:
    """Averages, votes and mean logits of the last weights (Nasr et al. 2023, Appendix F)."""
    sizes = [count for count in (10, 50, 100) if count <= len(progress.ring)]
    found = {f"last_{n}": _ensemble(model, progress.ring[-n:], data) for n in sizes}
    return {"ensembles": found} if found else {}


def _ensemble(model: nn.Module, ring: tuple[Blocks, ...], data: Prepared) -> dict[str, float]:
    def share(predicted: Tensor) -> float:
        return accuracy(predicted, data.test.targets, data.material.num_classes).overall

    inputs = data.test.inputs
    votes = predictions(lambda x: vote_shares(model, ring, data.ready(x)), inputs)
    logits = predictions(lambda x: mean_logits(model, ring, data.ready(x)), inputs)
    return {
        "mean_weights": _score(model, mean_weights(ring), data),
        "vote": share(votes),
        "mean_logits": share(logits),
    }


def pending(kept: dict[str, Any], only: str) -> Iterator[Row]:
    """Rows that are still to be run, in their order."""
    return (row for row in all_rows() if row.key not in kept and only in row.key)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="A folder with the .npz files.")
    parser.add_argument("--only", default="", help="Rows whose key contains this text.")
    parser.add_argument("--minutes", type=float, default=1e9, help="Start no row after these.")
    options = parser.parse_args()
    commit = machine.settings_commit("learn_settings.py", "learn_data.py")
    begun = time.monotonic()
    kept = json.loads(OUT.read_text())["rows"] if OUT.exists() else {}
    for row in pending(kept, options.only):
        if time.monotonic() - begun > 60 * options.minutes:
            break
        data = prepare_data(row.data, options.data)
        commits = {"settings_commit": commit, "commit": machine.COMMIT}
        kept[row.key] = row.described() | run_row(row, data) | commits
        machine.write(OUT, {"name": "learn_table", "rows": kept, "machine": machine.facts()})
        print(row.key, json.dumps(kept[row.key]), flush=True)


if __name__ == "__main__":
    main()
