"""What each of several runs did, where a certificate tells them apart, and what all of it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privet.privacy import events
from privet.privacy.events import Plan
from privet.privacy.portions import lives

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from privet.privacy.accountants import Accountant
    from privet.privacy.budget import Relation


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one run was allowed to do.

    Args:
        run: the name of the run.
        plan: its whole plan.
        portion: the portion that its rows lie in; `None` if they may lie in any.
    """

    run: str
    plan: Plan
    portion: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The spend as plain JSON values."""
        body = {"run": self.run, "portion": self.portion}
        return {**body, "events": events.to_json(self.plan.events)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Spend:
        """Read a spend from plain JSON values."""
        portion, plan = body["portion"], Plan(events.from_json(body["events"]))
        named = None if portion is None else str(portion)
        return cls(run=str(body["run"]), plan=plan, portion=named)


def plan_of(spends: Iterable[Spend]) -> Plan:
    """A plan of every event of all runs."""
    return Plan.of(*(event for each in spends for event in each.plan.events))


def cost_of(
    spends: Iterable[Spend], accountant: Accountant, delta: float, relation: Relation
) -> float:
    """ε of the dearest life: all events of runs that one unit may meet, composed."""
    met = lives((each.portion, each.plan.events) for each in spends)
    return max(accountant.epsilon(life, delta, relation) for life in met)
