"""What secure noise costs: numbers per second beside the usual noise, and whole releases.

A draw of a million numbers, and one release of 60,000 rows of 512 numbers, with noise of either
kind, in one process, alternating.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

import machine
from privet.hedge import GaussianSum, Hedge, NoisySum, PerRow, Randomness, grid_noise
from privet.privacy import Ledger, Plan
from timing import timed

NUMBERS, ROWS, SIZE, ROUNDS = 1_000_000, 60_000, 512, 9
SIGMA = 4.0


def release(folder: str, rows: torch.Tensor, *, secure: bool) -> Callable[[], NoisySum]:
    """One clipped sum of all rows, as often as it is called."""
    ledger = Ledger.create(
        Path(folder) / f"secure-{secure}.db",
        epsilon=20.0,
        delta=1e-5,
        relation="add-remove",
        secure_noise=secure,
    )
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=SIGMA)
    plan = Plan.of(mechanism.event.times(ROUNDS + 1))
    hedge = Hedge({"x": rows}, ledger.reserve(plan=plan), declared_size=ROWS)
    summand = PerRow(lambda units: units["x"], size=SIZE)
    return lambda: hedge.release(summand, mechanism)


def main() -> None:
    """Both kinds of both."""
    options = machine.arguments(__doc__ or "")
    torch.set_num_threads(1)
    zeros, usual, step = torch.zeros(NUMBERS, dtype=torch.float64), Randomness(), iter(range(10**6))
    rows = torch.randn(ROWS, SIZE)
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(
            {
                "usual": lambda: usual.noise(0, next(step), 0, NUMBERS),
                "secure": lambda: grid_noise.on_grid(zeros.clone(), SIGMA),
                "usual release": release(folder, rows, secure=False),
                "secure release": release(folder, rows, secure=True),
            },
            ROUNDS,
        )
    results = {
        "numbers": NUMBERS,
        "rows": ROWS,
        "size": SIZE,
        "usual_nanoseconds": round(1e9 * seconds.of("usual") / NUMBERS, 1),
        "secure_nanoseconds": round(1e9 * seconds.of("secure") / NUMBERS, 1),
        "ratio": round(seconds.ratio("secure", "usual"), 1),
        "release_ratio": round(seconds.ratio("secure release", "usual release"), 3),
    }

    def text() -> str:
        return "\n".join(f"{name:<20} {value:g}" for name, value in results.items())

    machine.keep("secure_noise", results, text, seeds=[], json_=options.json)


if __name__ == "__main__":
    main()
