"""Training in several processes, as torchrun starts them: what the leader tells, and who helps.

The leader's run is an ordinary one: it alone warms up, pays, adds noise and writes. Helpers wait
until it says that its reservation is live, go through the same steps from the same progress, and
add their shares to its sums.
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeGuard

from privet.hedge import Alone, Dismissed, PoissonSum, Processes, Team, assembled
from privet.learn import Engine, EnginePlan, Keys, Progress
from privet.learn import checkpoint as checkpoints
from privet.learn.training import train
from privet.recipes.training import TrainingStart, equation_for
from privet.runs.session import usable_device
from privet.runs.train_config import Asked
from privet.runs.train_stage import Stage, staged


def team_for(device: str) -> AbstractContextManager[Alone | Processes]:
    """Assemble all processes of this job, for as long as it takes; one alone without torchrun."""
    return assembled(usable_device(device))


def helps(team: Alone | Processes) -> TypeGuard[Processes]:
    """Whether another process leads the team."""
    return not team.leads


def spread(plan: EnginePlan, expected_batch: float | None, team: Team) -> EnginePlan:
    """Make batches small enough that there is one for every process in a step."""
    if expected_batch is None or team.size == 1:
        return plan
    most = max(1, ceil(expected_batch / team.size))
    engine = replace(plan.engine, physical_batch=min(plan.engine.physical_batch, most))
    return replace(plan, engine=engine)


def called_together(team: Team, stage: Stage, start: TrainingStart, checkpoint: Path) -> None:
    """As the leader, tell helpers what they need; the key of views is for their ears alone."""
    if team.size == 1:
        return
    engine = start.engine.engine
    body = {
        "asked": stage.asked.placed().given,
        "view_seed": str(stage.keys.view_seed),
        "mechanism": asdict(start.mechanism),
        "divisor": start.divisor,
        "engine": {"name": engine.name.value, "physical_batch": engine.physical_batch},
    }
    team.tell(json.dumps(body).encode())
    team.tell(checkpoint.read_bytes())


def help_training(team: Processes) -> None:
    """Do all that a helper does, from the leader's first word to its last."""
    leave_stopping_to_the_leader()
    device, word = str(team.device), team.told()
    if word is None:
        return
    body, progress = json.loads(word), _progress(team.told() or b"", device)
    stage = _stage(body, device)
    equation = equation_for(
        stage.network,
        stage.config.training,
        stage.material,
        stage.keys,
        body["divisor"],
        Engine(**body["engine"]),
    )
    steps = stage.helper(team).steps(PoissonSum(**body["mechanism"]), first=progress.step)
    try:
        train(equation, steps, stage.config.training.course, progress)
    except Dismissed:
        return
    while team.told() is not None:
        pass


def leave_stopping_to_the_leader() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stage(body: dict[str, Any], device: str) -> Stage:
    stage = staged(Asked(**body["asked"]), device=device)
    keys = Keys(stage.keys.seed, int(body["view_seed"]))
    return replace(stage, keys=keys).encoded()


def _progress(content: bytes, device: str) -> Progress:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "progress.safetensors"
        path.write_bytes(content)
        return checkpoints.load(path, device)
