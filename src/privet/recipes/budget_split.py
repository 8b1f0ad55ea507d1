"""How much of ε a run spends on a synthetic set before it trains: as asked for, or by a rule.

    ε(release) = share · ε          ε(release and steps) = ε

Both stand in one plan, composed by the PLD accountant: shares of ε do not add up, and training gets
more than what is left by subtraction. The rule knows what is public: ε, the declared size, classes
and the shape of images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from privet.errors import ConfigError
from privet.recipes.map_moments import SpsG

AUTO = "auto"
ENOUGH = 8.0
"""Foretold signal over noise beyond which a better release is worth less than better steps."""
_SHARES = tuple(round(0.05 * number, 2) for number in range(4, 17))


@dataclass(frozen=True)
class Foretold:
    """What a release is expected to be like.

    Args:
        relative_noise: its noise multiplier over the number of images in a class.
        settings: settings of SPS-G with sizes that suit that noise.
    """

    relative_noise: float
    settings: SpsG

    @property
    def signal(self) -> float:
        """The expected signal of a class over its noise.

        Vectors have length 1, and their noise is spread over all numbers that are released.
        """
        return 1 / (self.relative_noise * math.sqrt(_numbers(self.settings)))


@dataclass(frozen=True)
class Split:
    """A share of ε, and the reason for it."""

    share: float
    reason: str


def split_of(text: str, foretold: Callable[[float], Foretold | None]) -> Split:
    """Return the share of ε that was typed, or the one that a rule proposes.

    Args:
        text: a number between 0 and 1, or auto.
        foretold: what a release for a share of ε would be like; None if that cannot be foretold.
    """
    if text == AUTO:
        return proposed(foretold)
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise ConfigError(f"--release is {text}: give a share of ε between 0 and 1, or {AUTO}.")
    return Split(share, "as asked")


def proposed(foretold: Callable[[float], Foretold | None]) -> Split:
    """Propose the least share of ε at which a release keeps enough signal, from 0.2 to 0.8."""
    signal = 0.0
    for share in _SHARES:
        found = foretold(share)
        if found is None:
            raise ConfigError(
                f"--release {AUTO} foretells releases of sps-g alone: give a share of ε."
            )
        signal = found.signal
        if signal >= ENOUGH:
            return Split(
                share,
                f"the least share at which a class is foretold to have {ENOUGH:g} times as much "
                f"signal as noise ({signal:.2g})",
            )
    return Split(
        _SHARES[-1],
        f"no share gives a class {ENOUGH:g} times as much signal as noise, so most goes into the "
        f"release ({signal:.2g})",
    )


def _numbers(s: SpsG) -> int:
    """How many numbers a release has for one class.

    Means and second moments of every part, and only means of the shared one.
    """
    sizes = (size or 0 for size in (s.early, s.middle, s.deep, s.pixels))
    return sum(size + size * (size + 1) // 2 for size in sizes) + (s.shared or 0)
