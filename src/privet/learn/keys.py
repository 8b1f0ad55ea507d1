"""Randomness of a run outside the hedge, keyed by purpose and step, so that a resumed run goes on."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """What is drawn."""

    WEIGHTS = 0
    WARM_UP = 1
    PUBLIC_BATCH = 2
    PERTURBATION = 3
    JOINING = 4
    VIEWS = 5
    PROBE = 6


@dataclass(frozen=True)
class Keys:
    """Generators by (purpose, step).

    Views of private rows have a key of their own, fresh from the operating system: which views were
    drawn must not be known, as which other rows were in a batch decides who gets which draw.

    Args:
        seed: of everything that is public.
        view_seed: for tests, in runs that are not private.
    """

    seed: int
    view_seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.view_seed is None:
            object.__setattr__(self, "view_seed", secrets.randbits(128))

    def generator(self, purpose: Purpose, step: int = 0) -> torch.Generator:
        """The same draws for the same purpose and step."""
        seed = self.view_seed if purpose is Purpose.VIEWS else self.seed
        state = np.random.SeedSequence([seed or 0, purpose, step]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(state[0]) >> 1)
