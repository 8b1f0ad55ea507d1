"""`privet synthesize` of a table before anything is spent: what it would do, and what noise leaves.

The schema is declared or of public rows, so that all of this needs no private row.
"""

from __future__ import annotations

from dataclasses import dataclass

from privet.data.table_set import TableSet
from privet.hedge import GaussianSum
from privet.privacy import Plan
from privet.public import PublicRows
from privet.recipes.releases import Release, affordable_sums
from privet.recipes.table_embeddings import table_release
from privet.release.signal import BlockSignal
from privet.runs.listening import Listener
from privet.runs.reading import public_rows
from privet.runs.sets import Sets
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_quote import SynthesisQuote, guarantee_of, signals_of, warnings
from privet.runs.synthesis_stage import require_memory
from privet.runs.table_config import TableConfig, check_asked, resolved
from privet.runs.table_sets import read_table_sets


@dataclass(frozen=True, kw_only=True)
class TableStage:
    """Everything that a run works with, and that needs no private row.

    Args:
        asked: what was asked for.
        config: the complete configuration that follows from it.
        sets: rows; the private ones are for the hedge alone.
        public: public rows, for predictions; None if there are none.
        release: what will leave the hedge.
    """

    asked: SynthesisAsked
    config: TableConfig
    sets: Sets[TableSet]
    public: PublicRows | None
    release: Release

    @property
    def mechanisms(self) -> list[GaussianSum]:
        """The mechanism of the one release, with the least noise for the budget."""
        budget, relation = self.config.budget, self.config.relation
        return affordable_sums(budget, relation, [self.release.clip_norm])

    @property
    def plan(self) -> Plan:
        """All that will happen to private rows."""
        return Plan.of(*(each.event for each in self.mechanisms))

    def require_room(self) -> None:
        """Refuse what the owner's ledger would not pay for; nothing is written."""
        self.config.require_room(self.plan)

    @property
    def signals(self) -> tuple[BlockSignal, ...]:
        """Predicted signal over noise of every block; empty without public rows and a size.

        Classes are taken to be equally large.
        """
        size = self.config.declared_size
        if size is None or self.public is None:
            return ()
        return signals_of(
            self.release,
            self.mechanisms[0],
            self.public.inputs,
            self.public.targets,
            size,
        )

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public."""
        left_out = ("test rows, declared non-private and left out",)
        used = (*self.config.rows.treated_as_public, *left_out * (self.sets.test is not None))
        return (*used, *self.sets.caveats)


def staged(asked: SynthesisAsked, *, seeded: bool = False) -> TableStage:
    """Read rows, decide and check; the cheapest refusals come first."""
    _ = asked.budget
    check_asked(asked)
    sets = read_table_sets(asked.data_choice)
    config = resolved(asked, sets, seeded=seeded)
    stage = TableStage(
        asked=asked,
        config=config,
        sets=sets,
        public=None if sets.public is None else public_rows(sets.public),
        release=table_release(config.rows.schema, config.system),
    )
    require_memory(stage.release.embedding.num_coordinates)
    return stage


def quote_table(asked: SynthesisAsked, listener: Listener) -> SynthesisQuote:
    """Decide all that is decided before a private row is read, refusals included."""
    stage = staged(asked)
    stage.require_room()
    signals = stage.signals
    if not signals:
        listener.note("Give --declared-size and public rows to see what noise leaves.")
    for sentence in (*stage.sets.notes, *warnings(stage, signals)):
        listener.note(sentence)
    return SynthesisQuote(
        config=stage.config,
        noise_multiplier=stage.mechanisms[0].noise_multiplier,
        coordinates=stage.release.embedding.num_coordinates,
        plan=stage.plan,
        guarantee=guarantee_of(stage),
        signals=signals,
        choices=(),
        noun="rows",
    )
