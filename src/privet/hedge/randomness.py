"""Sampling and noise, keyed: what is drawn depends on a secret key, a stream and a step alone.

So neither the physical batch nor the number of processes changes a draw. The key comes from the
operating system, is never written anywhere, and no noise is ever drawn twice. `SecureRandomness`
has no key: every bit comes from the operating system.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge import grid_noise
from privet.hedge.mechanism import Mechanism
from privet.privacy import Budget, Plan, Reservation
from privet.privacy.allowance import SHARE_OF_DELTA

_SAMPLING, _NOISE = 0, 1
_LOW_63 = (1 << 63) - 1


class Randomness:
    """A counter-based generator (Philox 4×64) under a 128-bit key.

    Args:
        seed: for tests only. A run with a seed is certified as not private.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seeded = seed is not None
        self._key = secrets.randbits(128) if seed is None else _key(seed)
        self._claims: dict[tuple[int, int], object] = {}
        self._process = os.getpid()

    def next_unused(self, stream: int, step: int) -> int:
        """The first step number, from the given one on, for which no noise was drawn yet."""
        while (stream, step) in self._claims:
            step += 1
        return step

    def claim(self, stream: int, step: int) -> None:
        """Mark a (stream, step) as used: noise that is used twice protects nothing."""
        self.require_own_process()
        token = object()
        if self._claims.setdefault((stream, step), token) is not token:
            raise PrivacyError(f"The noise of step {step} was used already.")

    def require_own_process(self) -> None:
        """Refuse to go on in a forked process, where the other side draws the same noise."""
        if self._process != os.getpid():
            raise PrivacyError("A hedge must not cross a fork: make a new one in each process.")

    def sample(self, stream: int, step: int, count: int, rate: float) -> NDArray[np.int64]:
        """Draw which of `count` units join a step, each independently with probability `rate`."""
        uniform = np.random.Generator(self._bits(_SAMPLING, stream, step)).random(count)
        return np.flatnonzero(uniform < rate)

    def scale(self, mechanism: Mechanism, numbers: int, reservation: Reservation) -> float:
        """The noise scale of a sum of so many numbers; here always the planned one."""
        return mechanism.noise_scale

    def noised(
        self, parts: Sequence[Tensor], scale: float, stream: int, step: int, draw: int
    ) -> Iterator[Tensor]:
        """Add noise of that scale to the parts of a sum; the parts may be overwritten."""
        sizes = [len(part) for part in parts]
        drawn = torch.split(self.noise(stream, step, draw, sum(sizes)), sizes)
        for part, noise in zip(parts, drawn, strict=True):
            yield part.add_(noise.to(part.device), alpha=scale)

    def noise(self, stream: int, step: int, draw: int, size: int) -> Tensor:
        """Draw standard normal noise, in double precision; `draw` numbers the draws of a step."""
        half = (size + 1) // 2
        bits = self._bits(_NOISE + draw, stream, step).random_raw(2 * half).view(np.int64)
        first, second = torch.from_numpy(bits).view(2, half)
        return _standard_normal(first, second)[:size]

    def _bits(self, purpose: int, stream: int, step: int) -> np.random.Philox:
        # The lowest counter word counts draws; the other three tell apart what they are for.
        return np.random.Philox(key=self._key, counter=[0, purpose, stream, step])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("The key of noise and sampling is never saved.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seeded={self.seeded})"


class SecureRandomness(Randomness):
    """Noise on a grid, from bits of the operating system: for adversaries who see every digit.

    Slower than `Randomness`. A step is still claimed, so that none is noised twice.
    """

    def __init__(self) -> None:
        super().__init__()

    def sample(self, stream: int, step: int, count: int, rate: float) -> NDArray[np.int64]:
        """Draw which units join a step, each independently with probability at most `rate`."""
        if rate >= 1:
            return np.arange(count)
        drawn = np.frombuffer(os.urandom(8 * count), np.uint64)
        return np.flatnonzero(drawn < np.uint64(math.floor(rate * 2.0**64)))

    def scale(self, mechanism: Mechanism, numbers: int, reservation: Reservation) -> float:
        """The planned noise scale and a little more, to make up for rounding sums to the grid.

        Refused where the proof for noise on a grid does not cover the plan.
        """
        require_covered(reservation.ledger.budget, reservation.plan)
        return grid_noise.widened(mechanism.noise_multiplier, mechanism.clip_norm, numbers)

    def noised(
        self, parts: Sequence[Tensor], scale: float, stream: int, step: int, draw: int
    ) -> Iterator[Tensor]:
        """Round the parts of a sum to the grid and add noise of that scale."""
        return (grid_noise.on_grid(part.cpu(), scale).to(part.device) for part in parts)


def require_covered(budget: Budget, plan: Plan) -> None:
    """Refuse a plan for which the rare events that noise on a grid misses would take too much of δ.

    They may take a thousandth of their part of δ, since there may be a thousand runs in a ledger.
    Where the number of sums is random its mean counts, since probabilities add up.
    """
    sums = sum(event.sums for event in plan.events)
    missed = sums * grid_noise.MOST_NUMBERS * grid_noise.MISSED
    if (1 + math.exp(min(budget.epsilon, 700))) * missed > budget.delta * SHARE_OF_DELTA / 1024:
        raise PrivacyError(
            f"Secure noise is not proven at ε = {budget.epsilon:g} and δ = {budget.delta:g} for "
            f"{sums:,.0f} sums: take a smaller ε, or go without it."
        )


def _standard_normal(first: Tensor, second: Tensor) -> Tensor:
    """Two independent normal numbers from each pair of 64-bit words (Box and Muller 1958).

    Vectorised it is about twice as fast as a ziggurat. The radius comes of a uniform number in
    (0, 1] with 63 bits, so that tails reach to 9.3 standard deviations.
    """
    uniform = (first & _LOW_63).double().add_(1).mul_(2.0**-63)
    radius = uniform.log_().mul_(-2).sqrt_()
    angle = second.double().mul_(math.pi * 2.0**-63)
    return torch.cat([angle.cos().mul_(radius), angle.sin().mul_(radius)])


def _key(seed: int) -> int:
    return int.from_bytes(np.random.SeedSequence(seed).generate_state(4).tobytes())
