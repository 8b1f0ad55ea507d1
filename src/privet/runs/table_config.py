"""What `privet synthesize` was asked for of a table, and the configuration that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from privet.data.guard import shown
from privet.data.table_set import TableSet
from privet.errors import ConfigError
from privet.paths import absolute
from privet.privacy import Budget, Relation, Unit
from privet.recipes.forms import Forms, Kind
from privet.recipes.presets import named
from privet.recipes.row_kinds import SLOTS, TableRows
from privet.recipes.table_embeddings import TableMerf
from privet.runs.run_config import completed
from privet.runs.run_folder import CONFIG, RunFolder
from privet.runs.run_settings import portion_of, relation_of, two_digits
from privet.runs.sets import DataChoice, Sets
from privet.runs.synthesis_config import BALANCED, RELEASED, SynthesisAsked
from privet.runs.table_sets import is_table

SYSTEMS = {"dp-merf": Kind(TableMerf)}
FORMS = Forms({TableMerf: SYSTEMS, **SLOTS})
_FOR_IMAGES = ("preset", "resize", "channels", "encoder", "encoder_data", "soft_labels")


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """Everything that decides what a run makes, but for noise, place and number of rows.

    Args:
        data: where rows come from.
        system: the method and its settings.
        rows: the schema, and where it comes from.
        budget: what the run may spend.
        relation: which data sets are neighbours.
        ledger: the file of the owner's ledger; None for one of the run's own.
        portion: the portion of the ledger that all private rows lie in, as its owner declared; None
            for none.
        declared_size: the number of private units as the owner declares it, to two digits; None if
            not.
        seeded: whether noise comes from a seed, so that the run is not private.
        classes: how large synthetic classes are: balanced, or as released counts say.
    """

    data: DataChoice
    system: TableMerf
    rows: TableRows
    budget: Budget
    relation: Relation
    ledger: str | None = None
    portion: str | None = None
    declared_size: float | None = None
    seeded: bool = False
    classes: str = RELEASED

    @property
    def unit(self) -> Unit:
        """The unit that is protected: an example or a user."""
        return self.data.unit

    @property
    def num_classes(self) -> int:
        """How many classes the target has."""
        return len(self.rows.schema.classes)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(TableConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        made: Self = FORMS.restored(cls, completed(body, portion=None))
        return made


def of_table(asked: SynthesisAsked, folder: RunFolder | None = None) -> bool:
    """Whether a run makes a table.

    Args:
        asked: what was asked for now.
        folder: the folder of the run that it goes on with; None for a new run.
    """
    if folder is not None and folder.holds_run:
        asked = asked.over(folder.read(CONFIG)["asked"])
    return asked.data is not None and is_table(asked.data_choice)


def check_asked(asked: SynthesisAsked) -> TableMerf:
    """Read the method as typed; refuse what only images have."""
    for name in _FOR_IMAGES:
        if getattr(asked, name) is not None:
            option = "--" + name.replace("_", "-")
            raise ConfigError(f"{option} is for images, and a table has none: leave it out.")
    if asked.method is None:
        raise ConfigError(f"Give --method: {', '.join(SYSTEMS)}.")
    name = asked.method.partition(":")[0]
    if name not in SYSTEMS:
        raise ConfigError(
            f"--method is {shown(repr(name))}: for a table choose {', '.join(SYSTEMS)}."
        )
    system: TableMerf = FORMS.read(TableMerf, asked.method, "--method")
    return system


def resolved(asked: SynthesisAsked, sets: Sets[TableSet], *, seeded: bool) -> TableConfig:
    """Complete the configuration."""
    return TableConfig(
        data=asked.data_choice,
        system=check_asked(asked),
        rows=TableRows(schema=sets.private.schema, declared=asked.schema is not None),
        budget=asked.budget,
        relation=relation_of(asked),
        ledger=None if asked.ledger is None else absolute(asked.ledger),
        portion=portion_of(asked),
        declared_size=two_digits(asked.declared_size),
        seeded=seeded,
        classes=named((BALANCED, RELEASED), asked.classes or RELEASED, "--classes"),
    )
