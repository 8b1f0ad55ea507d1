"""What all audits share: a claim, a ledger of its own for every run, noise that may be planted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from privet.audit.findings import FALSE_ALARM, check_confidence
from privet.errors import ConfigError
from privet.hedge import Randomness
from privet.privacy import Budget, Guarantee, Ledger, Relation, Unit
from privet.privacy.accountants import PLD

_TOGETHER, _AMPLE = 100, 1e7  # runs that draw on one ledger, and its ε

NoiseOf = Callable[[int], Randomness]
"""The source of noise and sampling of the so-manyth hedge."""
OnTrial = Callable[[int, int], None]
"""Told how many of how many are done."""


class Planted(Randomness):
    """Randomness with too little noise, to see that an audit finds it; such runs are not private.

    Args:
        factor: the share of the planned noise that is added; 0 for none.
        seed: a seed, for tests.
    """

    def __init__(self, factor: float, seed: int | None = None) -> None:
        super().__init__(seed)
        self.seeded = True
        self._factor = factor

    def noise(self, stream: int, step: int, draw: int, size: int) -> Tensor:
        """The planned noise, times the factor."""
        return super().noise(stream, step, draw, size) * self._factor


def planted(factor: float | None) -> NoiseOf:
    """A source of noise for each run: as planned, or a factor of that."""
    if factor is None:
        return lambda _: Randomness()
    if not 0 <= factor <= 1:
        raise ConfigError(f"A planted bug leaves a share of the noise from 0 to 1, not {factor:g}.")
    return lambda _: Planted(factor)


def unheard(done: int, total: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What an audit holds a recipe to, and how it is run.

    Args:
        budget: the ε and the δ that are claimed.
        relation: which data sets are neighbours.
        confidence: the confidence of the lower bound.
        noise_of: gives the source of noise of a run, by its number.
        secure_noise: whether noise is drawn on a grid, from bits of the operating system.
        seed: the seed of rows, coins and weights, which are the auditor's own.
        on_trial: called with the number of trials done and that of all.
    """

    budget: Budget
    relation: Relation
    confidence: float = 0.95
    noise_of: NoiseOf = field(default_factory=lambda: planted(None))
    secure_noise: bool = False
    seed: int = 0
    on_trial: OnTrial = unheard

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.seed < 0:
            raise ConfigError(f"A seed is a whole number from 0 upwards, not {self.seed}.")

    @property
    def errors(self) -> tuple[float, float]:
        """The probabilities of error of the bound and of the alarm."""
        return 1 - self.confidence, FALSE_ALARM

    @property
    def claim(self) -> Guarantee:
        """The guarantee that is claimed."""
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            relation=self.relation,
            unit=Unit.EXAMPLE,
            accountant=PLD().name,
        )

    @property
    def runs_together(self) -> int:
        """How many runs draw on one ledger; with secure noise one, as it needs a true budget."""
        return 1 if self.secure_noise else _TOGETHER

    def named(self, subject: str) -> str:
        """The name of what is audited, with a note on secure noise."""
        return f"{subject}, secure noise" if self.secure_noise else subject

    def ample_ledger(self) -> AbstractContextManager[Ledger]:
        """A temporary ledger with room for all runs that draw on it together."""
        return self.ledger(None if self.runs_together == 1 else _AMPLE)

    @contextmanager
    def ledger(self, epsilon: float | None = None) -> Iterator[Ledger]:
        """A temporary ledger, thrown away with the rows that it guards, which are nobody's."""
        with tempfile.TemporaryDirectory(prefix="privet-audit-") as folder:
            path = Path(folder) / "ledger.db"
            ledger = Ledger.create(
                path,
                epsilon=self.budget.epsilon if epsilon is None else epsilon,
                delta=self.budget.delta,
                relation=self.relation,
                secure_noise=self.secure_noise,
            )
            with closing(ledger):
                yield ledger
