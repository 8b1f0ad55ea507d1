"""Claim: a private clipped sum takes at most 2.5 times as long as a plain sum, at any N in memory.

One release of 60,000 rows × 4,096 float32, clipped at the median row norm and noised through a
ledger, against `tensor.sum(0)` and `array.sum(0)` on the same array in the same process,
alternating. Memory is the peak of fresh processes whose rows are made on demand.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import machine
from privet.hedge import GaussianSum, Hedge, PerRow
from privet.privacy import Ledger, Plan

ROWS, SIZE = 60_000, 4_096
CLAIMED_RATIO = 2.5
CLAIMED_GROWTH_MIB = 16.0
BATCHES = (64, 128, 256, 512, 1024)
DEFAULT_BATCH = 512
NOISE_MULTIPLIER = 1000.0


class Virtual:
    """Rows that exist only while they are looked at."""

    def __init__(self, rows: int, size: int) -> None:
        self.shape = (rows, size)
        self._some = np.random.default_rng(0).standard_normal((1024, size), dtype=np.float32)

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        return self._some[np.arange(self.shape[0])[index] % len(self._some)]


class Releases:
    """A ledger with room for many releases, and the means to make one."""

    def __init__(self, folder: str, clip_norm: float) -> None:
        ledger = Ledger.create(
            Path(folder) / "ledger.db", epsilon=100.0, delta=1e-5, relation="add-remove"
        )
        self._mechanism = GaussianSum(clip_norm=clip_norm, noise_multiplier=NOISE_MULTIPLIER)
        self._reservation = ledger.reserve(plan=Plan.of(self._mechanism.event.times(10_000)))

    def of(self, rows: Any, batch: int) -> Callable[[], Any]:
        """A function that releases the clipped sum of these rows."""
        hedge = Hedge({"x": rows}, self._reservation, physical_batch=batch)
        summand = PerRow(lambda units: units["x"], size=rows.shape[1])
        return lambda: hedge.release(summand, self._mechanism)


def speed(repetitions: int, seed: int) -> dict[str, Any]:
    """Seconds of every contender, one after the other in every round."""
    array = np.empty((ROWS, SIZE), dtype=np.float32)
    np.random.default_rng(seed).standard_normal(dtype=np.float32, out=array)
    clip_norm = float(np.median(np.linalg.norm(array[:2000], axis=1)))
    tensor = torch.from_numpy(array)
    with tempfile.TemporaryDirectory() as folder:
        releases = Releases(folder, clip_norm)
        contenders: dict[str, Callable[[], Any]] = {
            "torch_sum": lambda: tensor.sum(0),
            "numpy_sum": lambda: array.sum(0),
            **{f"release_{batch}": releases.of(array, batch) for batch in BATCHES},
        }
        seconds = _alternate(contenders, repetitions)
    return _compared(seconds, clip_norm)


def _alternate(
    contenders: dict[str, Callable[[], Any]], repetitions: int
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(repetitions + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if repetition:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    return seconds


def _compared(seconds: dict[str, list[float]], clip_norm: float) -> dict[str, Any]:
    best = {name: min(values) for name, values in seconds.items()}
    median = {name: statistics.median(values) for name, values in seconds.items()}
    plain = min(median["torch_sum"], median["numpy_sum"])
    plain_best = min(best["torch_sum"], best["numpy_sum"])
    return {
        "rows": ROWS,
        "size": SIZE,
        "clip_norm": clip_norm,
        "threads": torch.get_num_threads(),
        "repetitions": len(seconds["torch_sum"]),
        "seconds_best": best,
        "seconds_median": median,
        "ratio_median": {str(b): median[f"release_{b}"] / plain for b in BATCHES},
        "ratio_best": {str(b): best[f"release_{b}"] / plain_best for b in BATCHES},
        "ratio": median[f"release_{DEFAULT_BATCH}"] / plain,
        "ratio_to_numpy": median[f"release_{DEFAULT_BATCH}"] / median["numpy_sum"],
        "claimed_ratio": CLAIMED_RATIO,
    }


def memory() -> dict[str, Any]:
    """Peak memory of a release beyond what the process held before, for several N."""
    extra = {rows: _in_fresh_process(rows) for rows in (ROWS // 4, ROWS // 2, ROWS)}
    return {
        "extra_mib": {str(rows): value for rows, value in extra.items()},
        "growth_mib": extra[ROWS] - extra[ROWS // 4],
        "claimed_growth_mib": CLAIMED_GROWTH_MIB,
        "array_mib": ROWS * SIZE * 4 / 2**20,
    }


def _in_fresh_process(rows: int) -> float:
    command = [sys.executable, __file__, "--measure-memory", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def _measure_memory(rows: int) -> float:
    """MiB by which one release raises the peak of this process."""
    with tempfile.TemporaryDirectory() as folder:
        releases = Releases(folder, clip_norm=64.0)
        releases.of(Virtual(8, SIZE), DEFAULT_BATCH)()  # imports and libraries do not count
        column = Virtual(rows, SIZE)
        before = _peak_mib()
        releases.of(column, DEFAULT_BATCH)()
        return _peak_mib() - before


def _peak_mib() -> float:
    """From /proc: unlike getrusage, it starts afresh with the program, not with its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(peak) / 1024


def main() -> None:
    """Measure memory first, then speed, and keep both."""
    if sys.argv[1:2] == ["--measure-memory"]:
        print(_measure_memory(int(sys.argv[2])))
        return
    options = machine.arguments(__doc__ or "", repetitions=9, seed=0)
    held = memory()
    fast = speed(options.repetitions, options.seed)
    holds = fast["ratio"] <= CLAIMED_RATIO and held["growth_mib"] <= CLAIMED_GROWTH_MIB

    def text() -> str:
        ratios = ", ".join(f"{b}: {r:.2f}" for b, r in fast["ratio_median"].items())
        extra = ", ".join(f"{n}: {m:.1f}" for n, m in held["extra_mib"].items())
        return (
            f"release / plain sum = {fast['ratio']:.2f} (claim: at most {CLAIMED_RATIO}); "
            f"by physical batch {ratios}\nextra MiB by rows: {extra}\n"
            f"the claim {'holds' if holds else 'FAILS'}"
        )

    results = {"holds": holds, "speed": fast, "memory": held}
    machine.keep("clipped_sum", results, text, seeds=[options.seed], json_=options.json)


if __name__ == "__main__":
    main()
