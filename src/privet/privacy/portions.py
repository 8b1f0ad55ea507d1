"""Portions: rows of which the owner declares that none lies in two of them.

One unit then meets the runs of its own portion, and those that belong to no portion and may read
every row; what other portions' runs do does not depend on it. So a ledger counts portions beside
each other: it costs a unit what its own life costs, and the promise is that of the dearest life
(parallel composition: McSherry, Privacy Integrated Queries, 2009, Theorem 4).

That needs a unit that lies in one portion, in both of two neighbouring data sets. Where one example
is added or removed, it is so. Where one is replaced, it may move: two portions change. And a user
may have rows in many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from privet.errors import ConfigError, PrivacyError
from privet.privacy.budget import Relation, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privet.privacy.events import Event

    Life = tuple[Event, ...]

_LONGEST_NAME = 60
Happening = TypeVar("Happening")


def lives(
    happenings: Iterable[tuple[str | None, Iterable[Happening]]],
) -> tuple[tuple[Happening, ...], ...]:
    """All that can happen to one unit, for each portion that it may lie in: events, for instance.

    Args:
        happenings: some happenings with their portion; with `None` if they may read every row.
    """
    everywhere: tuple[Happening, ...] = ()
    own: dict[str, tuple[Happening, ...]] = {}
    for portion, some in happenings:
        if portion is None:
            everywhere += tuple(some)
        else:
            own[portion] = (*own.get(portion, ()), *some)
    return tuple((*everywhere, *some) for some in own.values()) or (everywhere,)


def check_portions(relation: Relation, unit: Unit) -> None:
    """Refuse portions under a relation or unit that lets one unit lie in several of them."""
    if relation is not Relation.ADD_REMOVE:
        raise PrivacyError(
            f"A ledger under {relation.value} has no portions: an example that is replaced may "
            "move from one to another, so that both change."
        )
    if unit is not Unit.EXAMPLE:
        raise PrivacyError(
            f"A ledger that protects each {unit.value} has no portions: one {unit.value} may have "
            "rows in several."
        )


def check_name(name: str) -> None:
    """Refuse a portion name that is empty, too long or not printable."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{name[:_LONGEST_NAME]!r} is no name for a portion: give 1 to {_LONGEST_NAME} "
            "printable characters."
        )


def word(unit: Unit) -> str:
    """The promise that an owner makes by declaring portions, in words."""
    return f"the owner's word that no {unit.value} lies in two portions"
