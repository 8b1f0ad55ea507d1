"""What is promised, and to whom: (ε, δ), the relation between data sets and the unit of privacy."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from privet.errors import ConfigError


class Relation(Enum):
    """Which pairs of private data sets must look alike."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @property
    def sensitivity(self) -> int:
        """How far a neighbouring data set moves a clipped sum, in clip norms."""
        return 1 if self is Relation.ADD_REMOVE else 2

    @property
    def verb(self) -> str:
        """What may happen to one unit, as a verb: "add or remove", or "replace"."""
        return "add or remove" if self is Relation.ADD_REMOVE else "replace"


class Unit(Enum):
    """What one person contributes: an example, or all rows that carry one user id."""

    EXAMPLE = "example"
    USER = "user"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that may be spent on one private data set."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An ε that never travels without its δ, relation, unit and accountant."""

    epsilon: float
    delta: float
    relation: Relation
    unit: Unit
    accountant: str

    def __str__(self) -> str:
        return (
            f"ε = {decimals(round_up(self.epsilon, 3))} at δ = {self.delta:g} "
            f"({self.relation.verb} one {self.unit.value}, {self.accountant})"
        )

    def to_json(self) -> dict[str, Any]:
        """The ε with everything that belongs to it, as plain JSON values."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation.value,
            "unit": self.unit.value,
            "accountant": self.accountant,
        }


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that is not a positive finite number."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ConfigError(f"ε must be a positive number, not {epsilon:g}.")


def check_delta(delta: float) -> None:
    """Refuse a δ outside (0, 1): Gaussian noise has no pure guarantee."""
    if not 0 < delta < 1:
        raise ConfigError(f"δ must lie strictly between 0 and 1, not {delta:g}.")


def round_up(value: float, digits: int) -> float:
    """Round up to some decimals, so that a printed ε or σ is never smaller than the real one."""
    if not math.isfinite(value):
        return value
    scale = 10.0**digits
    # The slack keeps 1.0000000000000002 at 1.
    return math.ceil(value * scale - 1e-6) / scale


def round_down(epsilon: float) -> float:
    """Round what is left of a budget down to thousandths."""
    return math.floor(epsilon * 1000 + 1e-6) / 1000


def decimals(value: float) -> str:
    """Write a number with at most three decimals, without trailing zeros or an exponent."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def within(cost: float, budget: float) -> bool:
    """Whether a cost fits a budget, but for the last digits of floating point."""
    return cost <= budget * (1 + 1e-12)
