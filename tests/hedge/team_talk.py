"""What processes say to each other beside sums; told as JSON by each of them."""

import json
import os
import sys
from pathlib import Path

import torch

from privet.hedge import GaussianSum, Hedge, Helper, PerRow, PoissonSum, assembled
from privet.hedge.helper import Dismissed
from privet.privacy import Ledger, Plan

RELEASE = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
NOBODY = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=1e-12)
PLAN = Plan.of(RELEASE.event.times(1), NOBODY.event.times(1))
ROWS = {"x": torch.ones(9, 2)}
DOUBLED = PerRow(lambda units: units["y"], size=2)


def doubled(units):
    return {"y": 2 * units["x"]}


def sums(side):
    """Of mapped rows, and of nobody's."""
    mapped = side.map(doubled)
    total = mapped.release(DOUBLED, RELEASE).blocks["sum"].tolist()
    steps = mapped.steps(NOBODY)
    return steps, {"mapped": total, "empty": steps.step(DOUBLED).blocks["sum"].tolist()}


def lead(team, folder):
    ledger = Ledger.create(folder / "l.db", epsilon=50, delta=1e-5, relation="add-remove")
    _, found = sums(Hedge(ROWS, ledger.reserve(plan=PLAN)).shared_with(team))
    team.tell(b"hello")
    team.tell(b"")
    return found | {"given": team.given_by(1).decode()}


def help_out(team):
    steps, found = sums(Helper(ROWS, team))
    found["told"] = [team.told().decode(), team.told().decode()]
    team.give(b"thanks")
    if "listen" in sys.argv:
        return found | {"dismissed": team.told() is None}
    try:
        steps.step(DOUBLED)
    except Dismissed:
        return found | {"dismissed": True}


if __name__ == "__main__":
    with assembled(torch.device("cpu")) as team:
        if not team.leads and "leave" in sys.argv:
            os._exit(3)
        said = lead(team, Path(sys.argv[1])) if team.leads else help_out(team)
    sys.stdout.write(json.dumps(said))
