"""What `privet synthesize` was asked for of a table, and the configuration that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from privet.data.guard import shown
from privet.data.table_set import TableSet
from privet.errors import ConfigError
from privet.recipes.forms import Forms, Kind
from privet.recipes.presets import named
from privet.recipes.row_kinds import SLOTS, TableRows
from privet.recipes.table_embeddings import TableMerf
from privet.runs.run_folder import CONFIG, RunFolder
from privet.runs.run_terms import PrivateTerms, terms_of
from privet.runs.saved_config import completed
from privet.runs.sets import Sets
from privet.runs.synthesis_config import BALANCED, RELEASED, SynthesisAsked
from privet.runs.table_sets import is_table

SYSTEMS = {"dp-merf": Kind(TableMerf)}
FORMS = Forms({TableMerf: SYSTEMS, **SLOTS})
_FOR_IMAGES = ("preset", "resize", "channels", "encoder", "encoder_data", "soft_labels")


@dataclass(frozen=True, kw_only=True)
class TableConfig(PrivateTerms):
    """Everything that decides what a run makes, but for noise, place and number of rows.

    Args:
        system: the method and its settings.
        rows: the schema, and where it comes from.
        classes: how large synthetic classes are: balanced, or as released counts say.
    """

    system: TableMerf
    rows: TableRows
    classes: str = RELEASED

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
        system=check_asked(asked),
        rows=TableRows(schema=sets.private.schema, declared=asked.schema is not None),
        classes=named((BALANCED, RELEASED), asked.classes or RELEASED, "--classes"),
        **terms_of(asked, sets.aside, seeded=seeded),
    )
