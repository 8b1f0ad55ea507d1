"""A release and some steps by as many processes as the environment says: JSON from the leader."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from privet.hedge import GaussianSum, Hedge, Helper, PoissonSum, Processes, Randomness, assembled
from privet.privacy import Ledger, Plan
from tests.hedge.summands import class_blocks, rows

RELEASE = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
STEP = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
PLAN = Plan.of(RELEASE.event.times(1), STEP.event.times(3))


def job(folder, missing=0, reverse=0):
    """The leader's sums; helpers return what they were handed."""
    columns, summand = rows(40), class_blocks()
    with assembled(torch.device("cpu")) as team:
        if isinstance(team, Processes) and not team.leads:
            some = {name: column[missing:] for name, column in columns.items()}
            users = np.arange(len(columns["x"]))[::-1] if reverse else None
            side = Helper(some, team, users=users)
            found = [side.release(summand, RELEASE).blocks]
            steps = side.steps(STEP)
        else:
            ledger = Ledger.create(folder / "l.db", epsilon=50, delta=1e-5, relation="add-remove")
            side = Hedge(
                columns, ledger.reserve(plan=PLAN), randomness=Randomness(5), physical_batch=7
            )
            side = side.shared_with(team)
            found = [side.release(summand, RELEASE).blocks]
            steps = side.steps(STEP, physical_batch=3)
        found += [steps.step(summand).blocks for _ in range(3)]
    return [
        {name: block.double().flatten().tolist() for name, block in each.items()} for each in found
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(job(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
