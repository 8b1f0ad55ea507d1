"""A run's ledger and its reservation there, which another process can find again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from privet.privacy import Budget, Ledger, Relation, Reservation, Unit
from privet.runs.run_folder import RunFolder


class Terms(Protocol):
    """What a configuration says of privacy."""

    @property
    def budget(self) -> Budget:
        """What the run may spend."""

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours."""

    @property
    def unit(self) -> Unit:
        """The unit that is protected: an example or a user."""

    @property
    def ledger(self) -> str | None:
        """The file of the owner's ledger; None for one of the run's own."""


class Place(Protocol):
    """What a run remembers of its place in a ledger."""

    @property
    def label(self) -> str:
        """The label under which the ledger knows the run."""

    @property
    def ledger(self) -> str:
        """The ledger's file, seen from the run's folder."""

    @property
    def reservation(self) -> str | None:
        """The id of its reservation; None until that was written down."""


def open_ledger(
    terms: Terms, place: Place, folder: RunFolder, *, secure_noise: bool = False
) -> Ledger:
    """Open the owner's ledger, or the run's own, made for exactly what the run may spend.

    Args:
        terms: what the run's configuration says of privacy.
        place: the run's place in the ledger.
        folder: the run's folder.
        secure_noise: whether a ledger of the run's own asks for secure noise.
    """
    path = folder / place.ledger
    if terms.ledger is None and place.reservation is None and not path.exists():
        budget = terms.budget
        return Ledger.create(
            path,
            epsilon=budget.epsilon,
            delta=budget.delta,
            relation=terms.relation,
            unit=terms.unit,
            secure_noise=secure_noise,
        )
    return Ledger.open(path)


def find_or_reserve(
    ledger: Ledger, place: Place, reserve: Callable[[], Reservation]
) -> Reservation:
    """Find the run's reservation by its id or, if that was lost, by its label; else reserve.

    A closed one is found too: it pays for nothing more, and what it paid for is still there.
    """
    if place.reservation is not None:
        return Reservation(ledger, place.reservation)
    for record in ledger.records():
        if record.label == place.label:
            return ledger.resume(record.id)
    return reserve()
