"""How the learning rate moves over a run, as a factor from 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privet.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A linear rise to 1, then half a cosine from 1 down to `final`.

    Args:
        final: the factor at the end; 1 keeps it constant.
        warm_up: the share of all steps in which the factor rises; 0 for none.
    """

    final: float = 1.0
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.final <= 1:
            raise ConfigError(f"final is {self.final:g}; give a factor from 0 to 1.")
        if not 0 <= self.warm_up < 1:
            raise ConfigError(f"warm_up is {self.warm_up:g}; give a share from 0 to below 1.")

    def __call__(self, step: int, total: int) -> float:
        """The factor of step number `step`, from 0, in a run of `total` steps."""
        if not (total >= 1 and 0 <= step <= total):
            raise ConfigError(
                f"step is {step} of {total}; give a total from 1 upwards and a step within it."
            )
        rising = min(round(self.warm_up * total), total - 1)
        if step < rising:
            return (step + 1) / rising
        progress = (step - rising) / (total - rising)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * progress)) / 2


def constant(*, warm_up: float = 0.0) -> Schedule:
    """A schedule that stays at 1 after its warm-up."""
    return Schedule(final=1.0, warm_up=warm_up)


def cosine(*, final: float = 0.0, warm_up: float = 0.0) -> Schedule:
    """A schedule from 1 down to `final` (Loshchilov & Hutter, 2017, without restarts)."""
    return Schedule(final=final, warm_up=warm_up)
