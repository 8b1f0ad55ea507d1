"""What a ledger holds, as its owner sees it."""

from typing import Any

from privet.privacy import events
from privet.privacy.budget import round_down
from privet.privacy.ledger import Ledger
from privet.privacy.portions import word
from privet.privacy.records import Record


def overview(ledger: Ledger) -> dict[str, Any]:
    """Budget, portions, what is left, and every reservation, as plain JSON values."""
    return {
        "ledger": str(ledger.path),
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "relation": ledger.relation.value,
        "unit": ledger.unit.value,
        "secure_noise": ledger.secure_noise,
        "budget": (
            f"ε = {ledger.budget.epsilon:g} at δ = {ledger.budget.delta:g} "
            f"({ledger.relation.verb} one {ledger.unit.value})"
        ),
        "remaining_epsilon": round_down(ledger.remaining()),
        "composition": ledger.composition,
        "portions": {name: round_down(ledger.remaining(name)) for name in ledger.portions()},
        "portions_rest_on": word(ledger.unit),
        "reservations": [
            _reservation(ledger, record) for record in ledger.records() if not record.declares
        ],
    }


def _reservation(ledger: Ledger, record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "label": record.label,
        "portion": record.portion,
        "opened_at": record.opened_at,
        "state": record.state.value,
        "epsilon": record.epsilon,
        "events": [] if record.plan is None else events.to_json(record.plan.events),
        "spent": list(record.spent),
        "outside_guarantee": list(record.outside),
        "seeded_noise": record.seeded,
        "lines": _lines(ledger, record),
    }


def _lines(ledger: Ledger, record: Record) -> list[str]:
    """A reservation in words, line by line."""
    reserved = ledger.guarantee(record.epsilon, record.plan) if record.epsilon else "nothing"
    lines = [f"reserved  {reserved}"]
    if record.portion is not None:
        lines.append(f"portion   {record.portion}")
    if record.plan is not None:
        pairs = zip(record.plan.events, record.spent, strict=True)
        lines += [f"spent     {count:,} of {event}" for event, count in pairs]
    lines += [f"OUTSIDE THE GUARANTEE: {name}" for name in record.outside]
    if record.seeded:
        lines.append("NOT PRIVATE: the noise came from a given seed")
    return lines
