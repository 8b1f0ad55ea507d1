"""What a ledger holds: the promise it was made for, and one record per reservation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from privet.privacy import events
from privet.privacy.budget import Budget, Relation, Unit
from privet.privacy.events import Plan
from privet.privacy.filter import LARGEST_ORDER
from privet.privacy.splits import Split


class State(Enum):
    """The stages in the life of a reservation."""

    HELD = "held"  # budget is set aside, the plan is still to come
    OPEN = "open"  # the plan is fixed: rows may be read
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a ledger was created for; it never changes."""

    budget: Budget
    relation: Relation
    unit: Unit
    filter_order: int
    secure_noise: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.filter_order <= LARGEST_ORDER:
            raise ValueError(f"a filter has no order {self.filter_order}")

    def to_json(self) -> dict[str, Any]:
        """The promise as plain JSON values."""
        return {
            "filter_order": self.filter_order,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "relation": self.relation.value,
            "unit": self.unit.value,
            **({"secure_noise": True} if self.secure_noise else {}),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Promise:
        """Read a promise from plain JSON values."""
        return cls(
            budget=Budget(epsilon=body["epsilon"], delta=body["delta"]),
            relation=Relation(body["relation"]),
            unit=Unit(body["unit"]),
            filter_order=int(body["filter_order"]),
            secure_noise=bool(body.get("secure_noise", False)),
        )


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything a ledger knows of one reservation."""

    id: str
    label: str
    opened_at: str
    epsilon: float
    state: State
    plan: Plan | None = None
    spent: tuple[int, ...] = ()
    alone: bool = False
    seeded: bool = False
    declared_size: float | None = None
    outside: tuple[str, ...] = ()
    portion: str | None = None
    split: Split | None = None
    holder: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        planned = () if self.plan is None else self.plan.events
        if not self.spent:
            object.__setattr__(self, "spent", (0,) * len(planned))
        pairs = zip(self.spent, planned, strict=True)
        if not all(0 <= count <= event.count for count, event in pairs):
            raise ValueError(f"{self.spent} spent of {self.plan}")

    def _check_types(self) -> None:
        """Refuse wrong types and values: a file may say anything, and it decides what is left."""
        texts = (self.id, self.label, self.opened_at, *self.outside)
        if not all(isinstance(each, str) for each in texts):
            raise TypeError("a name is no text")
        if not all(each is None or isinstance(each, str) for each in (self.portion, self.holder)):
            raise TypeError("the name of a portion or of a holder is no text")
        if not (isinstance(self.alone, bool) and isinstance(self.seeded, bool)):
            raise TypeError("a truth is no truth")
        if not all(type(each) is int for each in self.spent):
            raise TypeError(f"{self.spent} are no counts")
        size = self.declared_size
        if not (0 <= self.epsilon < math.inf) or not (size is None or 0 < size < math.inf):
            raise ValueError(f"ε = {self.epsilon} for {size} units")

    @property
    def declares(self) -> bool:
        """Whether the record declares a portion, and so sets nothing aside."""
        return self.portion is not None and self.plan is None and not self.epsilon

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values.

        A Privet that does not know portions, splits or holders refuses a record with one.
        """
        return {
            "id": self.id,
            "label": self.label,
            "opened_at": self.opened_at,
            "epsilon": self.epsilon,
            "state": self.state.value,
            "plan": None if self.plan is None else events.to_json(self.plan.events),
            "spent": list(self.spent),
            "alone": self.alone,
            "seeded": self.seeded,
            "declared_size": self.declared_size,
            "outside": list(self.outside),
            **({} if self.portion is None else {"portion": self.portion}),
            **({} if self.split is None else {"split": self.split.to_json()}),
            **({} if self.holder is None else {"holder": self.holder}),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Record:
        """Read a record from plain JSON values."""
        plan = None if body["plan"] is None else Plan(events.from_json(body["plan"]))
        split = body.get("split")
        return cls(
            **{
                **body,
                "plan": plan,
                "state": State(body["state"]),
                "spent": tuple(body["spent"]),
                "outside": tuple(body["outside"]),
                "split": None if split is None else Split(**split),
            }
        )
