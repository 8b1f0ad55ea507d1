"""The ledger: one file per private data set, kept by its owner, that every spend goes through.

Formal guarantees:
    * A reservation is durable before the first private row is read, and a spend before its result
      is shown, so a crash can only over-count.
    * Reservations are serialised by the database: processes cannot jointly overspend.
    * All reservations together, chosen adaptively, satisfy the ledger's (ε, δ): by the Rényi
      filter; or, where a single plan alone fills the ledger, by the plan's own accountant.
    * Runs in different portions are counted beside each other, by the owner's word that no unit
      lies in two; everything else adds up.
    * Every record is sealed with a digest and counted; a ledger that does not add up is refused.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from privet.errors import BudgetExceeded, ConfigError, PrivacyError
from privet.paths import Overlaps
from privet.privacy.accountants import tightest
from privet.privacy.allowance import release_sigma
from privet.privacy.budget import (
    Budget,
    Guarantee,
    Relation,
    Unit,
    check_epsilon,
    decimals,
    round_down,
    round_up,
    within,
)
from privet.privacy.calibration import affordable
from privet.privacy.events import Event, GaussianRelease, Plan
from privet.privacy.filter import RenyiFilter
from privet.privacy.portions import check_name, check_portions, lives
from privet.privacy.records import Promise, Record, State
from privet.privacy.reservation import Reservation
from privet.privacy.splits import Split, refuse_other_splits
from privet.privacy.store import Books, Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from privet.privacy.portions import Life


class Ledger:
    """An open ledger. Make one with `create`, find it again with `open`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._promise = store.promise()
        self._filter = RenyiFilter(self.budget, self.relation, self._promise.filter_order)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: float,
        delta: float,
        relation: Relation | str,
        unit: Unit | str = Unit.EXAMPLE,
        secure_noise: bool = False,
    ) -> Ledger:
        """Create a ledger; an existing file is never touched.

        Args:
            path: the file to make.
            epsilon: the most that may ever be spent.
            delta: the δ of everything that is spent.
            relation: which private data sets must look alike.
            unit: what one person contributes.
            secure_noise: whether all noise is drawn on a grid, from bits of the operating system.
        """
        budget, relation = Budget(epsilon=epsilon, delta=delta), _choice(Relation, relation)
        promise = Promise(
            budget=budget,
            relation=relation,
            unit=_choice(Unit, unit),
            filter_order=RenyiFilter.for_budget(budget, relation).order,
            secure_noise=secure_noise,
        )
        Store.create(Path(path), promise)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger and check it record by record."""
        return cls(Store(Path(path)))

    @property
    def path(self) -> Path:
        """The file of the ledger."""
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
    def secure_noise(self) -> bool:
        """Whether every hedge that draws on the ledger uses noise on a grid."""
        return self._promise.secure_noise

    @property
    def composition(self) -> str:
        """The name of the rule by which spends of several runs add up."""
        return self._filter.name

    def books(self, *, write: bool = False) -> AbstractContextManager[Books]:
        """Open one consistent view or, to write, one durable change without other processes."""
        return self._store.transaction(write=write)

    def close(self) -> None:
        """Close the file. Reservations stay as they are."""
        self._store.close()

    def records(self) -> tuple[Record, ...]:
        """Every reservation ever made, oldest first."""
        with self.books() as books:
            return books.records()

    def protected(self) -> dict[str, str]:
        """Where rows lie that runs protect, each with the label of such a run."""
        used = self._used(self.records())
        return {each.split.source: each.label for each in used if each.split is not None}

    def remaining(self, portion: str | None = None) -> float:
        """The ε of the largest run that would still be granted, at the ledger's δ.

        Args:
            portion: the portion that the run's rows lie in; `None` if they may lie in any.
        """
        records = self.records()
        _require_declared(portion, records)
        return self._remaining(records, portion)

    def declare_portion(self, name: str) -> None:
        """Write down the owner's word that no unit of this portion lies in another one.

        What tells portions apart must be in the row itself, such as its class or the day on which
        it came: one row more must not move any other.

        Raises:
            PrivacyError: if the relation or the unit lets one unit lie in several portions, or the
            portion is declared already.
        """
        check_portions(self.relation, self.unit)
        check_name(name)
        record = replace(_new_record(0.0, None, f"portion {name}"), portion=name)
        with self.books(write=True) as books:
            if name in _declared(books.records()):
                raise PrivacyError(f"The portion {name!r} is declared already.")
            books.add(replace(record, state=State.CLOSED))

    def portions(self) -> tuple[str, ...]:
        """The names of the declared portions, oldest first."""
        return _declared(self.records())

    def reserve(
        self,
        *,
        epsilon: float | None = None,
        plan: Plan | None = None,
        label: str = "run",
        portion: str | None = None,
        split: Split | None = None,
    ) -> Reservation:
        """Set budget aside: for a plan, or for a plan of at most ε that is fixed later.

        Beside other runs, an ε is held at the price of one Gaussian release. A plan that the filter
        counts for more may be refused when it is fixed; nothing is spent then.

        Args:
            epsilon: the ε to hold for a plan that is fixed later; give this or a plan.
            plan: the plan to grant.
            label: a name by which people know the run.
            portion: the declared portion that all its rows lie in; `None` if they may lie in any,
                which counts in every portion.
            split: which rows of which source are private; `None` leaves it to the caller that all
                runs mean the same ones.

        Raises:
            PrivacyError: if another run of the same source has another split, or another portion.
            BudgetExceeded: with what was asked, what is left and what would fit. Nothing is spent.
        """
        if plan is not None and epsilon is None:
            epsilon = self.cost(plan.events)
        elif epsilon is not None and plan is None:
            check_epsilon(epsilon)
        else:
            raise ConfigError("Reserve either an ε or a plan, not both and not neither.")
        _require_declared(portion, self.records())
        record = replace(_new_record(epsilon, plan, label), portion=portion, split=split)
        self.grant(record)
        return Reservation(self, record.id)

    def look(self, label: str) -> Reservation:
        """Make a reservation that only allows to look at rows outside the guarantee.

        It pays for nothing and spends nothing, however full the ledger is; that rows were looked at
        is written down.
        """
        record = replace(_new_record(0.0, None, label), state=State.OPEN)
        self.grant(record)
        return Reservation(self, record.id)

    def require_room(
        self, plan: Plan, portion: str | None = None, split: Split | None = None
    ) -> None:
        """Refuse a plan that would not be granted now; nothing is written."""
        with self.books(write=True) as books:  # a ledger that may not be written grants nothing
            records = books.records()
        _require_declared(portion, records)
        record = replace(
            _new_record(self.cost(plan.events), plan, "room"), portion=portion, split=split
        )
        refuse_other_splits(record, self._used(records))
        if self._alone(record, records) is None:
            raise BudgetExceeded(self._refusal(record, records))

    def grant(self, record: Record, before: Record | None = None) -> None:
        """Write a reservation if there is room for it beside all others.

        Args:
            record: a new reservation, or one whose plan was just fixed.
            before: the record until then; refused if it was changed meanwhile.
        """
        overlap, known = Overlaps(), self.records()
        self._alone(record, known)  # warms the caches: not while others wait
        refuse_other_splits(record, self._used(known) if before is None else (), overlap)
        with self.books(write=True) as books:
            records = books.records()
            if before is not None and before not in records:
                raise PrivacyError(f"Reservation {record.id} was changed by someone else.")
            if before is None:
                refuse_other_splits(record, self._used(records), overlap)
            alone = self._alone(record, records)
            if alone is not None:
                write = books.add if before is None else books.update
                write(replace(record, alone=alone))
        if alone is None:
            raise BudgetExceeded(self._refusal(record, _others(record, records)))

    def _used(self, records: Iterable[Record]) -> list[Record]:
        """The reservations that have cost something, or may yet."""
        return [each for each in records if self._counted(each)]

    def _alone(self, record: Record, records: tuple[Record, ...]) -> bool | None:
        return self._rule(
            self._met(record.portion, _others(record, records)), self._counted(record)
        )

    def resume(self, reservation_id: str) -> Reservation:
        """Take up a reservation of an earlier process, with all that it has spent."""
        reservation = Reservation(self, reservation_id)
        if reservation.record.state is State.CLOSED:
            raise PrivacyError(f"Reservation {reservation_id} is closed: make a new one.")
        return reservation

    def cost(self, events: Iterable[Event]) -> float:
        """The ε of a plan by itself, at the ledger's δ and relation, by the tightest accountant."""
        events = tuple(events)
        return tightest(events).epsilon(events, self.budget.delta, self.relation)

    def guarantee(self, epsilon: float, plan: Plan | None = None) -> Guarantee:
        """An ε together with the ledger's δ, relation and unit, and with its accountant.

        Args:
            epsilon: the ε, as a number.
            plan: the plan that costs it, which decides the accountant.
        """
        return Guarantee(
            epsilon=epsilon,
            delta=self.budget.delta,
            relation=self.relation,
            unit=self.unit,
            accountant=tightest(() if plan is None else plan.events).name,
        )

    def _rule(self, others: tuple[Life, ...], asked: tuple[Event, ...]) -> bool | None:
        """Whether a plan is admitted alone (True) or by the filter (False); None is a refusal."""
        if not asked:
            return False
        if all(self._filter.admits((*life, *asked)) for life in others):
            return False
        # A plan that fills the ledger by itself is not adaptive: it may use the tight accountant.
        if not any(others) and within(self.cost(asked), self.budget.epsilon):
            return True
        return None

    def _met(self, portion: str | None, records: Iterable[Record]) -> tuple[Life, ...]:
        """All that may have happened to a unit of this portion, or for `None` of each portion."""
        seen = (each for each in records if portion is None or each.portion in (None, portion))
        return lives((each.portion, self._counted(each)) for each in seen)

    def _counted(self, record: Record) -> tuple[Event, ...]:
        """The events that a reservation counts for: all it may still do, or all that it did."""
        if record.plan is None:
            if record.state is not State.HELD:  # closed unused, or it may only look
                return ()
            noise = release_sigma(record.epsilon, self.budget.delta) * self.relation.sensitivity
            return (GaussianRelease(noise_multiplier=noise),)
        # Handing unused steps back makes the stopping adaptive, which only the filter covers.
        if record.state is State.CLOSED and (not record.alone or not any(record.spent)):
            pairs = zip(record.plan.events, record.spent, strict=True)
            return tuple(event.times(count) for event, count in pairs if count)
        return record.plan.events

    def _remaining(self, records: tuple[Record, ...], portion: str | None) -> float:
        met = self._met(portion, records)
        return min(self._filter.room_for(life) if life else self.budget.epsilon for life in met)

    def _refusal(self, record: Record, others: tuple[Record, ...]) -> str:
        left, spent = self._remaining(others, record.portion), self._met(record.portion, others)
        counted = max(self._filter.epsilon((*life, *self._counted(record))) for life in spent)
        where = "" if record.portion is None else f" of the portion {record.portion!r}"
        advice = []
        if left >= 0.001:
            advice.append(f"a Gaussian release of ε ≤ {decimals(round_down(left))}")
        if record.plan is not None and (fitting := self._fitting_count(record.plan, spent)):
            last = record.plan.events[-1]
            kind = "releases" if isinstance(last, GaussianRelease) else "steps"
            advice.append(f"{fitting:,} of the {last.count:,} {kind}")
        return (
            f"Asked for {self.guarantee(record.epsilon, record.plan)}, which the ledger counts as "
            f"ε = {decimals(round_up(counted, 3))} with what is reserved already{where}, of "
            f"{self.budget.epsilon:g} ({self.composition}, {self.path}): "
            f"{' or '.join(advice) or 'nothing'} would fit."
        )

    def _fitting_count(self, plan: Plan, spent: tuple[Life, ...]) -> int:
        """How often the plan's last event would be granted, the rest being as it is."""
        *rest, last = plan.events

        def fits(count: int) -> bool:
            return self._rule(spent, (*rest, last.times(count))) is not None

        return affordable(fits, last.count)


def _new_record(epsilon: float, plan: Plan | None, label: str) -> Record:
    return Record(
        id=uuid.uuid4().hex,
        label=label,
        opened_at=datetime.now(UTC).isoformat(timespec="seconds"),
        epsilon=epsilon,
        plan=plan,
        state=State.HELD if plan is None else State.OPEN,
    )


def _others(record: Record, records: tuple[Record, ...]) -> tuple[Record, ...]:
    return tuple(other for other in records if other.id != record.id)


def _declared(records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(each.portion for each in records if each.portion is not None and each.declares)


def _require_declared(portion: str | None, records: Iterable[Record]) -> None:
    if portion is not None and portion not in _declared(records):
        raise PrivacyError(
            f"The ledger has no portion {portion!r}: its owner declares one with 'privet ledger "
            "portion'."
        )


Choice = TypeVar("Choice", Relation, Unit)


def _choice(kind: type[Choice], value: Choice | str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(choice.value) for choice in kind)
        raise ConfigError(f"{value!r} is no {kind.__name__.lower()}: choose {known}.") from None
