"""Whether noise is as large as was planned: what is left of a sum that an auditor knows.

Once the coins are known, a sum less what its rows add is noise alone, and of a Poisson sample
noise and more. So its energy over the planned variance is χ² distributed, or larger; if it is far
below, noise is missing, whatever may be guessed of canaries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from privet.hedge import Mechanism


@dataclass(frozen=True)
class NoiseFound:
    """The noise in the quietest part of all that left the hedge.

    Args:
        part: which sum, and which of its blocks.
        share: the noise found there, as a share of what was planned.
        p_value: how likely so little is, at most, if the noise is as planned.
    """

    part: str
    share: float
    p_value: float

    def missing(self, false_alarm: float) -> bool:
        """Whether there surely is less noise than planned, but for that chance of a false alarm."""
        return self.p_value < false_alarm

    def in_words(self, false_alarm: float) -> str:
        """The noise in words, as an audit prints it."""
        if self.missing(false_alarm):
            return str(self)
        return f"as planned (p = {self.p_value:.2g} where it is least)"

    def __str__(self) -> str:
        return f"{self.part} has {self.share:.2g} times the noise that was planned"


@dataclass
class Gauge:
    """Energies and degrees of freedom, by part; steps of one kind are added up."""

    energies: dict[str, tuple[float, int]] = field(default_factory=dict)
    releases: int = 0

    def add(self, noise: Mapping[str, Tensor], mechanism: Mechanism, release: bool) -> None:
        """Add the noise of one more sum, block by block."""
        self.releases += release
        name = f"release {self.releases}" if release else "all steps"
        planned = mechanism.noise_multiplier * mechanism.clip_norm  # as the plan has it
        for block, values in noise.items():
            energy = float((values / planned).square().sum())
            before, size = self.energies.get(f"{name}, {block}", (0.0, 0))
            self.energies[f"{name}, {block}"] = (before + energy, size + values.numel())

    @property
    def found(self) -> NoiseFound | None:
        """The part with the least noise for its size, and how likely it is among all parts."""
        from scipy.stats import chi2

        found = [
            NoiseFound(
                part,
                math.sqrt(energy / size),
                min(1.0, len(self.energies) * float(chi2.cdf(energy, size))),
            )
            for part, (energy, size) in self.energies.items()
            if math.isfinite(energy)
        ]
        return min(found, key=lambda each: each.p_value, default=None)
