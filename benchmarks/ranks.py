"""Claim: two processes on two cores are nearly twice as fast as one.

    python benchmarks/ranks.py [--rounds N]

One job of one process with one thread, and one of two such, take turns: private steps of
WRN-16-4 with K = 16 over the same examples. What processes say to each other, and the ledger, is
timed apart, when nobody waits for anybody's gradients, and set against a logical batch of 1,024.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import machine
from privet.hedge import Alone, Hedge, Helper, Processes, Randomness, assembled
from privet.hedge.clipping import ClippedSum
from privet.learn import Augmented, Engine, EngineName, Equation, Keys, Method, State
from privet.learn.equation import random_rows
from privet.learn.gradients import copied, trainable
from privet.models import WideResNet
from privet.privacy import Ledger, Plan
from step_cost import CLASSES, MECHANISM, PACE, SHAPE

UNITS, STEPS, LOGICAL_BATCH = 16, 3, 1024
ENGINE = Engine(name=EngineName.LOOP, physical_batch=1)


def job() -> None:
    """One process's part; the first prints seconds."""
    torch.manual_seed(0)
    rows = random_rows(SHAPE, CLASSES, UNITS, pixels=True)
    columns = {"images": rows.inputs.numpy(), "labels": rows.targets.numpy()}
    model = WideResNet(16, 4, CLASSES)
    step = Equation(
        model=model,
        method=Method(views=Augmented(num_views=16)),
        divisor=1.0,
        num_classes=CLASSES,
        keys=Keys(0, 0),
        engine=ENGINE,
    )
    state = State(weights=copied(trainable(model)))
    with tempfile.TemporaryDirectory() as folder, assembled(torch.device("cpu")) as team:
        if isinstance(team, Processes) and not team.leads:
            steps = Helper(columns, team).steps(MECHANISM)
            for _ in range(STEPS + 1):
                step.step(state, steps, PACE)
            _talk(team, state)
            return
        ledger = Ledger.create(
            Path(folder) / "l.db", epsilon=50.0, delta=1e-5, relation="add-remove"
        )
        reservation = ledger.reserve(plan=Plan.of(MECHANISM.event.times(1000)))
        hedge = Hedge(columns, reservation, randomness=Randomness(0))
        steps = hedge.shared_with(team).steps(MECHANISM, physical_batch=ENGINE.physical_batch)
        seconds = []
        for _ in range(STEPS + 1):
            start = time.perf_counter()
            step.step(state, steps, PACE)
            seconds.append(time.perf_counter() - start)
        talk = _talk(team, state)
        start = time.perf_counter()
        reservation.spend(MECHANISM.event)
        spend = time.perf_counter() - start
        ledger.close()
    print(json.dumps({"seconds": min(seconds[1:]), "talk": talk, "ledger": spend}))


def _talk(team: Processes | Alone, state: State) -> float:
    """Seconds for one sum to come together and be handed out, with nothing to wait for."""
    times = []
    for _ in range(5):
        own = ClippedSum({name: block.double() for name, block in state.weights.items()})
        start = time.perf_counter()
        team.total(own)
        team.hand_out(state.weights)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def together(count: int, port: int) -> dict[str, float]:
    """What the first of so many processes found."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--job"],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [each.communicate()[0] for each in processes]
    found: dict[str, float] = json.loads(said[0])
    return found


def measure(rounds: int) -> dict[str, Any]:
    """Best of rounds that take turns."""
    found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for number in range(rounds):
        for count in found:
            found[count].append(together(count, 29500 + 10 * number + count))
    best = {count: min(each["seconds"] for each in each_) for count, each_ in found.items()}
    talk = min(each["talk"] + each["ledger"] for each in found[2])
    return {
        "speedup": best[1] / best[2],
        "seconds_per_example": {str(count): value / UNITS for count, value in best.items()},
        "talk_and_ledger_seconds": talk,
        "overhead_at_logical_batch_1024": talk / (LOGICAL_BATCH * best[2] / UNITS),
    }


def main() -> None:
    """Measure and keep."""
    if sys.argv[1:] == ["--job"]:
        job()
        return
    options = machine.arguments(__doc__ or "", rounds=3, seed=0)
    results = measure(options.rounds)

    def text() -> str:
        return "\n".join(f"{name}: {value}" for name, value in results.items())

    machine.keep("ranks", results, text, seeds=[options.seed], json_=options.json)


if __name__ == "__main__":
    main()
