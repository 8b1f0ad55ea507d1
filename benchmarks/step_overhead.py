"""Claim: privacy costs a training step only its noise; the ledger adds a few milliseconds.

One Poisson step of a 2.7-million-dimensional float32 vector in 60 blocks whose gradients cost
nothing, so that what remains is noise, ledger and the handling of the blocks.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import machine
from privet.hedge import Blocks, Hedge, PoissonSum, Randomness, Units
from privet.privacy import Ledger, Plan

DIMENSION, BLOCKS = 2_700_000, 60
MECHANISM = PoissonSum(clip_norm=1.0, noise_multiplier=200.0, sampling_rate=0.05)


def sizes() -> list[int]:
    """From biases to convolutions: sizes in a geometric row that add up to the dimension."""
    shares = np.geomspace(1, 2000, BLOCKS)
    found = (DIMENSION * shares / shares.sum()).astype(int)
    found[-1] += DIMENSION - found.sum()
    return [int(size) for size in found]


@dataclass(frozen=True)
class Free:
    """A summand whose vectors are zero: what a step costs besides its gradients."""

    blocks: Blocks

    def zeros(self) -> Blocks:
        """The shapes."""
        return self.blocks

    def norms(self, units: Units) -> Tensor:
        """All zero."""
        return torch.zeros(len(units))

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Zero."""
        return self.blocks


def measure(repetitions: int, seed: int) -> dict[str, Any]:
    """Milliseconds of a whole step, of its noise and of its spend, alternating."""
    blocks = {f"block {i}": torch.zeros(size) for i, size in enumerate(sizes())}
    randomness, number = Randomness(seed), iter(range(10**9))

    def noise() -> None:
        step = next(number)
        for index, block in enumerate(blocks.values()):
            randomness.noise(0, step, index, block.numel())

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=10.0, delta=1e-5, relation="add-remove"
        )
        reservation = ledger.reserve(plan=Plan.of(MECHANISM.event.times(10_000)))
        rows = np.zeros((2000, 1), dtype=np.float32)
        steps = Hedge({"x": rows}, reservation).steps(MECHANISM)
        parts: dict[str, Callable[[], Any]] = {
            "step": lambda: steps.step(Free(blocks)),
            "noise": noise,
            "ledger": lambda: reservation.spend(MECHANISM.event),
        }
        milliseconds = _alternate(parts, repetitions)
        ledger.close()
    median = {name: statistics.median(values) for name, values in milliseconds.items()}
    return {
        "dimension": DIMENSION,
        "blocks": BLOCKS,
        "repetitions": repetitions,
        "milliseconds_median": {
            **median,
            "rest": median["step"] - median["noise"] - median["ledger"],
        },
        "milliseconds_best": {name: min(values) for name, values in milliseconds.items()},
    }


def _alternate(parts: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    milliseconds: dict[str, list[float]] = {name: [] for name in parts}
    for repetition in range(repetitions + 2):
        for name, run in parts.items():
            start = time.perf_counter()
            run()
            if repetition >= 2:  # the first rounds warm up
                milliseconds[name].append(1000 * (time.perf_counter() - start))
    return milliseconds


def main() -> None:
    """Measure and keep."""
    options = machine.arguments(__doc__ or "", repetitions=30, seed=0)
    results = measure(options.repetitions, options.seed)

    def text() -> str:
        parts = results["milliseconds_median"]
        return "milliseconds: " + ", ".join(f"{name} {value:.2f}" for name, value in parts.items())

    machine.keep("step_overhead", results, text, seeds=[options.seed], json_=options.json)


if __name__ == "__main__":
    main()
