"""Randomness of a run outside the hedge, keyed by purpose and step, so that runs can be resumed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray

_WORDS = 624  # of 32 bits: the state of a Mersenne twister
_HEADER = 24  # bytes before them in what torch calls its generator's state


class Purpose(IntEnum):
    """What a generator of `Keys` is used for."""

    WEIGHTS = 0
    WARM_UP = 1
    PUBLIC_BATCH = 2
    PERTURBATION = 3
    JOINING = 4
    VIEWS = 5
    PROBE = 6


@dataclass(frozen=True)
class Keys:
    """Random generators by (purpose, step, part of a step).

    Views of private rows have a key of their own, fresh from the operating system: which views were
    drawn must not be known, as which other rows were in a batch decides who gets which draw.

    Args:
        seed: the seed of everything that is public.
        view_seed: the seed of views of private rows, for tests in runs that are not private.
    """

    seed: int
    view_seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.view_seed is None:
            object.__setattr__(self, "view_seed", secrets.randbits(128))

    def generator(self, purpose: Purpose, step: int = 0, part: int = 0) -> torch.Generator:
        """A generator that gives the same draws for the same purpose, step and part."""
        seed = self.view_seed if purpose is Purpose.VIEWS else self.seed
        words = np.random.SeedSequence([seed or 0, purpose, step, part]).generate_state(_WORDS)
        return _seeded(words.astype(np.uint64))


def _seeded(words: NDArray[np.uint64]) -> torch.Generator:
    """A generator whose whole state is set from the given words.

    `manual_seed` uses 32 bits, which can be tried one by one.
    """
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    state.numpy()[_HEADER : _HEADER + 8 * _WORDS] = words.view(np.uint8)
    generator.set_state(state)
    return generator
