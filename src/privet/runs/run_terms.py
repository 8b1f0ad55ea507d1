"""What every run that pays says of privacy, whatever it makes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from privet.data.schema_file import origin_of_schema
from privet.errors import ConfigError
from privet.paths import absolute, as_path
from privet.privacy import Budget, Ledger, Plan, Relation, Unit
from privet.privacy.splits import Split
from privet.recipes.presets import named
from privet.runs.data_choice import DataChoice
from privet.runs.run_words import Words, two_digits

_LARGE_DELTA = 1e-3


@dataclass(frozen=True, kw_only=True)
class PrivateTerms:
    """Whose rows a run reads, what it may spend on them, and out of which ledger.

    Args:
        data: where rows come from.
        budget: what the run may spend.
        relation: which data sets are neighbours.
        ledger: the file of the owner's ledger; None for one of the run's own.
        portion: the portion of the ledger that all private rows lie in, as its owner declared; None
            for none.
        declared_size: the number of private units as the owner declares it, to two digits; None if
            not.
        seeded: whether noise comes from a seed, so that the run is not private.
    """

    data: DataChoice
    budget: Budget
    relation: Relation
    ledger: str | None = None
    portion: str | None = None
    declared_size: float | None = None
    seeded: bool = False

    @property
    def unit(self) -> Unit:
        """The unit that is protected: an example or a user."""
        return self.data.unit

    @property
    def split(self) -> Split:
        """Which rows are private, as a ledger compares it between runs."""
        origin = None if self.data.schema is None else origin_of_schema(self.data.schema)
        return self.data.split if origin is None else self.data.split.with_others(origin.place)

    def require_room(self, plan: Plan, split: Split | None = None) -> None:
        """Refuse what the owner's ledger, if there is one, would not pay for.

        Args:
            plan: all that will happen to private rows.
            split: which rows are private; None for what the terms themselves say.
        """
        if self.ledger is not None:
            with closing(Ledger.open(self.ledger)) as ledger:
                ledger.require_room(plan, self.portion, split or self.split)


def terms_of(asked: Words, aside: str, *, seeded: bool) -> dict[str, Any]:
    """Complete the fields of `PrivateTerms`, by name.

    Args:
        asked: what was asked for.
        aside: a digest of the rows that were split off private ones.
        seeded: whether noise comes from a seed.
    """
    terms = PrivateTerms(
        data=replace(asked.data_choice, aside=aside),
        budget=asked.budget,
        relation=relation_of(asked),
        ledger=None if asked.ledger is None else absolute(asked.ledger),
        portion=portion_of(asked),
        declared_size=two_digits(asked.declared_size),
        seeded=seeded,
    )
    return vars(terms)


def relation_of(asked: Words) -> Relation:
    """The relation that was asked for, or add-or-remove; an owner's ledger has its own terms."""
    known = {each.value: each for each in Relation}
    wanted = None if asked.relation is None else named(known, asked.relation, "--relation")
    if asked.ledger is None:
        return known[wanted or Relation.ADD_REMOVE.value]
    ledger = Ledger.open(as_path(asked.ledger))
    try:
        terms = {
            "--delta": (asked.delta, ledger.budget.delta),
            "--relation": (wanted or ledger.relation.value, ledger.relation.value),
        }
        for name, (ours, theirs) in terms.items():
            if ours != theirs:
                raise ConfigError(f"{name} is {ours} and the ledger's is {theirs}: give that one.")
        _check_unit(asked, ledger.unit)
        return ledger.relation
    finally:
        ledger.close()


def portion_of(asked: Words) -> str | None:
    """The portion of the owner's ledger that counts the run; a run's own ledger has none."""
    if asked.portion is not None and asked.ledger is None:
        raise ConfigError("--portion is one that an owner's ledger has: give --ledger too.")
    return asked.portion


def _check_unit(asked: Words, theirs: Unit) -> None:
    ours = Unit.EXAMPLE if asked.user is None else Unit.USER
    if ours is theirs:
        return
    remedy = "leave out --user" if ours is Unit.USER else "name the column of users with --user"
    raise ConfigError(
        f"the unit is {ours.value} and the ledger's is {theirs.value}: {remedy}, or take another "
        "ledger."
    )


def delta_warnings(delta: float, size: float | None, unit: str) -> list[str]:
    """Sentences about a δ that is allowed and yet too large, where it is.

    Args:
        delta: what may be spent of it.
        size: the declared number of units; None if there is none.
        unit: the word for one.
    """
    if size is not None and delta >= 1 / size:
        return [
            f"δ = {delta:g} is not below 1/{size:g}, one over the declared size: it allows that a "
            f"single {unit} is published whole, so choose one well below {1 / size:.1g}."
        ]
    if size is None and delta >= _LARGE_DELTA:
        return [f"δ = {delta:g} is large: it should be well below one over the number of {unit}s."]
    return []
