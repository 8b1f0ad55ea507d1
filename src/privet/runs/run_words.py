"""What all commands that start a run may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from privet.errors import ConfigError, DataError
from privet.paths import absolute
from privet.privacy import Budget
from privet.recipes.forms import Forms
from privet.runs.data_choice import DataChoice


@dataclass(frozen=True, kw_only=True)
class Words:
    """What all commands that start a run may be asked for; what is None was left out."""

    data: str | None = None
    method: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    public: str | None = None
    test: str | None = None
    resize: str | None = None
    channels: str | None = None
    target: str | None = None
    schema: str | None = None
    user: str | None = None
    declared_size: float | None = None
    ledger: str | None = None
    portion: str | None = None
    relation: str | None = None
    seed: int | None = None

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """Take those of many words that have a field here."""
        return cls(**{each.name: words.get(each.name) for each in fields(cls)})

    def placed(self) -> Self:
        """Return the same as it may be saved: with absolute paths, and a declared size rounded."""
        choice = self.data_choice
        return replace(
            self,
            data=choice.source,
            public=choice.public,
            test=choice.test,
            schema=choice.schema,
            ledger=None if self.ledger is None else absolute(self.ledger),
            declared_size=two_digits(self.declared_size),
        )

    def over(self, earlier: Mapping[str, Any]) -> Self:
        """Fill in what was asked for before, where nothing is asked for now."""
        if not isinstance(earlier, Mapping):
            raise DataError("A run's configuration does not say what was asked for: start again.")
        saved: Self = Forms({}).restored(type(self), {**asdict(type(self)()), **earlier})
        return replace(saved, **self.given)

    @property
    def given(self) -> dict[str, Any]:
        """The words that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def budget(self) -> Budget:
        """The budget of ε and δ, which have no defaults."""
        if self.epsilon is None or self.delta is None:
            raise ConfigError("Give --epsilon and --delta: a guarantee has no default.")
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def data_choice(self) -> DataChoice:
        """The choice of where rows come from."""
        if self.data is None:
            raise ConfigError("Give DATA: a built-in name (digits, mnist5k) or a path.")
        return DataChoice(
            source=self.data,
            public=self.public,
            test=self.test,
            resize=self.resize,
            channels=self.channels,
            target=self.target,
            schema=self.schema,
            user=self.user,
            seed=self.seed or 0,
        ).placed()


def two_digits(size: float | None) -> float | None:
    """Round a declared size to two digits, as the hedge keeps it.

    More digits would say more than an owner declares.
    """
    if size is None:
        return None
    if not 1 <= size < float("inf"):
        raise ConfigError(f"--declared-size is {size:g}: give the number of examples, 1 or more.")
    return float(f"{size:.1e}")
