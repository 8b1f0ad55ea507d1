"""The ledger: one file per private data set, kept by its owner, that every spend goes through.

Formal guarantees:
    * A spend is durable before the first private row is read, so a crash can only over-count.
    * Reservations are serialised by the database: processes cannot jointly overspend.
    * All reservations together, chosen adaptively, satisfy the ledger's (ε, δ): by the Rényi
      filter; or, where a single plan alone fills the ledger, by the plan's own accountant.
    * Every record is sealed with a digest; a ledger that does not add up is refused.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from privet.errors import BudgetExceeded, ConfigError, PrivacyError
from privet.privacy.accountants import PLD
from privet.privacy.budget import Budget, Guarantee, Relation, Unit, check_epsilon, round_down
from privet.privacy.calibration import affordable
from privet.privacy.events import Event, GaussianRelease, Plan
from privet.privacy.filter import RenyiFilter
from privet.privacy.gaussian import sigma
from privet.privacy.records import Books, Promise, Record, State, Store
from privet.privacy.reservation import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager


class Ledger:
    """An open ledger. Make one with `create`, find it again with `open`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._promise = store.promise()
        self._filter = RenyiFilter.for_budget(self.budget, self.relation)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: float,
        delta: float,
        relation: Relation | str,
        unit: Unit | str = Unit.EXAMPLE,
    ) -> Ledger:
        """A new ledger; an existing file is never touched."""
        promise = Promise(
            budget=Budget(epsilon=epsilon, delta=delta),
            relation=Relation(relation),
            unit=Unit(unit),
        )
        Store.create(Path(path), promise)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """An existing ledger, checked record by record."""
        return cls(Store(Path(path)))

    @property
    def path(self) -> Path:
        """Where the ledger lies."""
        return self._store.path

    @property
    def budget(self) -> Budget:
        """The most that may ever be spent."""
        return self._promise.budget

    @property
    def relation(self) -> Relation:
        """Which private data sets must look alike."""
        return self._promise.relation

    @property
    def unit(self) -> Unit:
        """What one person contributes."""
        return self._promise.unit

    @property
    def composition(self) -> str:
        """How spends of several runs are added up."""
        return self._filter.name

    def books(self, *, write: bool = False) -> AbstractContextManager[Books]:
        """One consistent look; or one durable change, alone among all processes."""
        return self._store.transaction(write=write)

    def close(self) -> None:
        """Let go of the file. Reservations stay as they are."""
        self._store.close()

    def records(self) -> tuple[Record, ...]:
        """Every reservation ever made, oldest first."""
        with self.books() as books:
            return books.records()

    def remaining(self) -> float:
        """The ε of the largest run that would still be granted, at the ledger's δ."""
        return self._remaining(self.records())

    def reserve(
        self, *, epsilon: float | None = None, plan: Plan | None = None, label: str = "run"
    ) -> Reservation:
        """Set budget aside: for a plan, or for a plan of at most ε that is fixed later.

        Raises:
            BudgetExceeded: with what was asked, what is left and what would fit. Nothing is spent.
        """
        if plan is not None and epsilon is None:
            epsilon = self.cost(plan.events)
        elif epsilon is None or plan is not None:
            raise ConfigError("Reserve either an ε or a plan, not both and not neither.")
        check_epsilon(epsilon)
        record = Record(
            id=uuid.uuid4().hex,
            label=label,
            opened_at=datetime.now(UTC).isoformat(timespec="seconds"),
            epsilon=epsilon,
            plan=plan,
            state=State.HELD if plan is None else State.OPEN,
        )
        with self.books(write=True) as books:
            books.write(self.granted(record, books))
        return Reservation(self, record.id)

    def resume(self, reservation_id: str) -> Reservation:
        """A reservation of an earlier process, with all it has spent."""
        reservation = Reservation(self, reservation_id)
        if reservation.record.state is State.CLOSED:
            raise PrivacyError(f"Reservation {reservation_id} is closed: make a new one.")
        return reservation

    def cost(self, events: Iterable[Event]) -> float:
        """ε of a plan by itself, at the ledger's δ and relation, by the tightest accountant."""
        return PLD().epsilon(events, self.budget.delta, self.relation)

    def guarantee(self, epsilon: float) -> Guarantee:
        """An ε of this ledger with all that belongs to it."""
        return Guarantee(
            epsilon=epsilon,
            delta=self.budget.delta,
            relation=self.relation,
            unit=self.unit,
            accountant=PLD().name,
        )

    def granted(self, record: Record, books: Books) -> Record:
        """The record with the rule that admits it, beside all others; or a refusal."""
        records = tuple(other for other in books.records() if other.id != record.id)
        others = self._events(records)
        asked = self._events([record])
        if self._filter.admits((*others, *asked)):
            return replace(record, alone=False)
        # A plan that fills the ledger by itself is not adaptive: it may use the tight accountant.
        if not others and self.cost(asked) <= self.budget.epsilon * (1 + 1e-12):
            return replace(record, alone=True)
        raise BudgetExceeded(self._refusal(record, records))

    def _events(self, records: Iterable[Record]) -> tuple[Event, ...]:
        return tuple(event for record in records for event in self._counted(record))

    def _counted(self, record: Record) -> tuple[Event, ...]:
        """What a reservation counts for: all it may still do, or all that it did."""
        if record.plan is None:
            if record.state is State.CLOSED:
                return ()
            noise = sigma(record.epsilon, self.budget.delta) * self.relation.sensitivity
            return (GaussianRelease(noise_multiplier=noise),)
        # Handing unused steps back makes the stopping adaptive, which only the filter covers.
        if record.state is State.CLOSED and (not record.alone or not any(record.spent)):
            pairs = zip(record.plan.events, record.spent, strict=True)
            return tuple(event.times(count) for event, count in pairs if count)
        return record.plan.events

    def _remaining(self, records: tuple[Record, ...]) -> float:
        spent = self._events(records)
        return self._filter.room_for(spent) if spent else self.budget.epsilon

    def _refusal(self, record: Record, others: tuple[Record, ...]) -> str:
        left = self._remaining(others)
        asked = self.guarantee(record.epsilon)
        advice = f"a run of ε ≤ {round_down(left):g} would fit" if left >= 0.001 else "nothing fits"
        if record.plan is not None and (fitting := self._fitting_count(record.plan, others)):
            last = record.plan.events[-1]
            kind = "releases" if isinstance(last, GaussianRelease) else "steps"
            advice += f", or {fitting:,} of the {last.count:,} {kind}"
        return (
            f"Asked for {asked}, but ledger {self.path} has ε = {round_down(left):g} left of "
            f"{self.budget.epsilon:g} ({self.composition} across runs): {advice}."
        )

    def _fitting_count(self, plan: Plan, others: tuple[Record, ...]) -> int:
        """How many of the plan's last event would be granted with the rest as it is."""
        *rest, last = plan.events
        spent = self._events(others)

        def fits(count: int) -> bool:
            events = (*rest, last.times(count))
            return self._filter.admits((*spent, *events)) or (
                not spent and self.cost(events) <= self.budget.epsilon
            )

        return affordable(fits, last.count)
