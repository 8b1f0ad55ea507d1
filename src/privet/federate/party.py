"""A party of a federation: the settings that an owner decides and keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from privet.errors import ConfigError
from privet.paths import overlap
from privet.privacy import Budget, Relation, Unit
from privet.recipes.forms import Forms
from privet.runs.data_choice import DataChoice, part_of, placed
from privet.runs.run_terms import relation_of
from privet.runs.run_words import two_digits
from privet.runs.synthesis_config import SynthesisAsked


@dataclass(frozen=True, kw_only=True)
class Party:
    """The settings of one party of a federation, decided by its owner.

    Args:
        name: the name by which others know it.
        data: its private images.
        public: a set that all parties and the server have, image for image.
        encoder: the encoder, the same everywhere.
        epsilon: the ε that it spends in all on one federation.
        delta: the δ of its guarantee.
        relation: which of its data sets are neighbours.
        out: its folder for one federation.
        ledger: the owner's ledger; `None` for one in the folder.
        declared_size: the number of its images as its owner declares it.
        resize: one size for all images.
        channels: rgb or grey.
        noise_seed: for tests; the party is certified as not private.
    """

    name: str
    data: str
    public: str
    epsilon: float
    delta: float
    relation: str
    out: str
    encoder: str = "conv"
    ledger: str | None = None
    declared_size: float | None = None
    resize: str | None = None
    channels: str | None = None
    noise_seed: int | None = None

    def __post_init__(self) -> None:
        _ = self.budget
        if not self.name.strip() or not self.name.isprintable():
            raise ConfigError(f"A party's name is {self.name!r}: give one that can be printed.")
        if self.relation not in {each.value for each in Relation}:
            known = ", ".join(each.value for each in Relation)
            raise ConfigError(f"--relation is {self.relation!r}: choose {known}.")
        if not isinstance(part_of(self.public), str):
            raise ConfigError(
                f"--public is {self.public}: name a set that all parties have, not a share of one "
                "party's images."
            )

    @property
    def budget(self) -> Budget:
        """The ε and δ that the party spends."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def terms(self) -> Terms:
        """The party's privacy settings, which its owner's ledger must agree with."""
        asked = SynthesisAsked(delta=self.delta, relation=self.relation, ledger=self.ledger)
        return Terms(self.budget, relation_of(asked), self.ledger)

    @property
    def choice(self) -> DataChoice:
        """The party's data and public set, and how to read them."""
        made = DataChoice(
            source=self.data, public=self.public, resize=self.resize, channels=self.channels
        )
        return made.placed()

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values, for the party's own processes."""
        return asdict(self)

    def remembered(self) -> dict[str, Any]:
        """The settings as a folder keeps them: whether noise is seeded, and not by what."""
        body = {**asdict(self), "declared_size": two_digits(self.declared_size)}
        return {**body, "noise_seed": None, "seeded": self.noise_seed is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read settings that `to_json` wrote."""
        made: Self = Forms({}).restored(cls, body)
        return made


def simulated_parties(words: Sequence[str], common: Mapping[str, Any], out: Path) -> list[Party]:
    """Parse parties as typed: NAME=PATH, with settings of its own after commas.

    Args:
        words: one for each party, such as `clinic=clinic.npz,epsilon=2`.
        common: settings of all parties, where one has none of its own.
        out: the folder under which each party has its own.
    """
    found: list[Party] = []
    for number, each in enumerate(words):
        pairs = [part.partition("=") for part in each.split(",")]
        if not all(equals and value for _, equals, value in pairs):
            raise ConfigError(f"--party is {each!r}: give NAME=PATH[,epsilon=E][,delta=D].")
        (name, _, data), *rest = pairs
        own = {key: value for key, _, value in rest}
        strange = own.keys() - _OWN
        if strange:
            known = ", ".join(_OWN)
            raise ConfigError(f"--party {name} has no setting {min(strange)!r}: give {known}.")
        numbers = {"epsilon", "delta", "declared_size"} & own.keys()
        settings = {**common, **own, **{key: _number(name, key, own[key]) for key in numbers}}
        if settings.get("noise_seed") is not None:
            settings["noise_seed"] += number  # equal noise would not add up as independent noise
        twin = next((other for other in found if overlap(placed(other.data), placed(data))), None)
        if twin is not None:
            raise ConfigError(
                f"--party {name} has the data of {twin.name}, or a part of them: a row lies with "
                "one party."
            )
        found.append(Party(name=name, data=data, out=str(out / name), **settings))
    return found


_OWN = ("epsilon", "delta", "relation", "ledger", "declared_size", "public", "encoder")


def _number(party: str, key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"--party {party} has {key}={value!r}: give a number.") from None


@dataclass(frozen=True)
class Terms:
    """What a party's ledger is asked for (see `run_ledger.Terms`)."""

    budget: Budget
    relation: Relation
    ledger: str | None
    unit: Unit = Unit.EXAMPLE
