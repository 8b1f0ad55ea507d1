"""How a run of any command is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from privet.errors import ConfigError
from privet.hedge import Alone, Team


@dataclass(frozen=True, kw_only=True)
class Session:
    """How a run is carried out, which changes nothing about what it is.

    Args:
        out: the folder where it lies.
        resume: go on with the run that lies there.
        force: replace an earlier run.
        noise_seed: a seed for noise, for tests: the run is certified as not private; None draws
            real noise.
        device: where the network lies.
        tensorboard: write events beside metrics; a run that did before goes on to.
        team: the processes that take part.
    """

    out: Path
    resume: bool = False
    force: bool = False
    noise_seed: int | None = None
    device: str = "cpu"
    tensorboard: bool = False
    team: Team = field(default_factory=Alone)


def usable_device(name: str) -> torch.device:
    """Return the device of this name; refuse one that cannot be used here."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--device {name} cannot be used here ({reason}).") from None
    if device.type == "meta":
        raise ConfigError(f"--device {name} cannot be used here (it holds no values).")
    return device
