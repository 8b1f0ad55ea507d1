"""A run's share of a ledger: the key without which the hedge reads nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privet.errors import BudgetExceeded, PrivacyError
from privet.privacy.budget import Guarantee, decimals, round_up, within
from privet.privacy.records import Record, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from privet.privacy.events import Event, Plan
    from privet.privacy.ledger import Ledger


@dataclass(frozen=True)
class Ticket:
    """Proof that one spend of a planned event is durable: which event, and its number in order."""

    event_index: int
    number: int


class Reservation:
    """A handle on what a ledger set aside for one run.

    It is live once its plan is fixed and until it is closed. Nothing is cached: every question is
    answered by the ledger, so that handles in several processes agree.
    """

    def __init__(self, ledger: Ledger, reservation_id: str) -> None:
        self.ledger = ledger
        self.id = reservation_id

    @property
    def record(self) -> Record:
        """The reservation as the ledger has it now."""
        with self.ledger.books() as books:
            return books.read(self.id)

    @property
    def plan(self) -> Plan:
        """The plan that was fixed; refused while there is none."""
        plan = self.record.plan
        if plan is None:
            raise PrivacyError("Fix the reservation's plan before touching private rows.")
        return plan

    @property
    def guarantee(self) -> Guarantee:
        """What the whole plan costs by itself, run to its end."""
        plan = self.plan
        return self.ledger.guarantee(self.ledger.cost(plan.events), plan)

    def fix(self, plan: Plan) -> None:
        """Fix what the run will do; it must cost no more than was set aside."""
        record = self.record
        if record.state is not State.HELD:
            done = "is closed" if record.state is State.CLOSED else "has its plan already"
            raise PrivacyError(f"Reservation {self.id} {done}: make a new one.")
        cost = self.ledger.cost(plan.events)
        if not within(cost, record.epsilon):
            raise BudgetExceeded(
                f"The plan costs ε = {decimals(round_up(cost, 3))} but {record.epsilon:g} is "
                "reserved: reserve more, or add noise."
            )
        self.ledger.grant(replace(record, plan=plan, state=State.OPEN), before=record)

    def require_live(self) -> None:
        """Refuse unless the plan is fixed, durable and not closed."""
        state = self.record.state
        if state is not State.OPEN:
            reason = "has no plan yet" if state is State.HELD else "is closed"
            raise PrivacyError(f"No private row without a live reservation: {self.id} {reason}.")

    def require(self, event: Event) -> None:
        """Refuse unless the plan still pays for one more of this event."""
        _slot(self.record, event)

    def spend(self, event: Event) -> Ticket:
        """Count one of a planned event, durably, before its result leaves the hedge."""
        with self.ledger.books(write=True) as books:
            record = books.read(self.id)
            ticket = _slot(record, event)
            spent = list(record.spent)
            spent[ticket.event_index] += 1
            books.update(replace(record, spent=tuple(spent)))
        return ticket

    def remaining(self, event: Event) -> int:
        """How many of a planned event are left; a step that is run again is counted again."""
        record = self.record
        index = None if record.plan is None else record.plan.index(event)
        if index is None or record.plan is None:
            return 0
        return record.plan.events[index].count - record.spent[index]

    def spent(self, event: Event) -> int:
        """How many of a planned event are spent."""
        record = self.record
        index = None if record.plan is None else record.plan.index(event)
        return 0 if index is None else record.spent[index]

    def open_door(self, name: str) -> None:
        """Write down that rows are looked at outside the guarantee, before they are."""
        self._note(lambda record: replace(record, outside=(*record.outside, name)))

    def declare_size(self, size: float) -> None:
        """Write down the number of units that the owner declared, for the certificate."""
        self._note(lambda record: replace(record, declared_size=size))

    def mark_seeded(self) -> None:
        """Write down that the noise is reproducible, so that the run is not private."""
        self._note(lambda record: replace(record, seeded=True))

    def hold(self, holder: str) -> None:
        """Take the reservation over: from now on nobody who held it before can close it."""
        self.require_live()
        self._note(lambda record: replace(record, holder=holder))

    def close(self, holder: str | None = None) -> None:
        """End the reservation; what was not begun goes back where the composition allows it.

        Args:
            holder: who closes it, if it is held; refused if another has taken it over. The same
                holder may close it again.
        """

        def closed(record: Record) -> Record:
            if holder is not None and record.holder != holder:
                raise PrivacyError(f"Reservation {self.id} was taken over by someone else.")
            return replace(record, state=State.CLOSED)

        self._note(closed)

    def _note(self, change: Callable[[Record], Record]) -> None:
        with self.ledger.books(write=True) as books:
            books.update(change(books.read(self.id)))


def _slot(record: Record, event: Event) -> Ticket:
    """The ticket of the next spend of a planned event; refused if the plan does not pay for it."""
    if record.state is not State.OPEN or record.plan is None:
        raise PrivacyError(f"No spend without a live reservation: {record.id} is not live.")
    index = record.plan.index(event)
    if index is None:
        raise PrivacyError(f"The plan ({record.plan}) does not contain {event.times(1)}.")
    if record.spent[index] >= record.plan.events[index].count:
        raise PrivacyError(f"All of the planned {record.plan.events[index]} are spent.")
    return Ticket(index, record.spent[index])
