"""`privet synthesize` of a table: one release, a generator of rows, and a file of them.

What is done stays done in the run's folder: the release, the generator, and the rows, of which more
can be had for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privet.data.disk import check_free_space
from privet.data.guard import MIB
from privet.errors import ConfigError
from privet.privacy import Certificate
from privet.recipes.table_embeddings import SyntheticTable, table_merf
from privet.runs.finished_run import FinishedRun
from privet.runs.folder_memory import FolderMemory
from privet.runs.kept_releases import require_kept
from privet.runs.listening import Listener
from privet.runs.run_folder import (
    CERTIFICATE,
    RESULT,
    SYNTHETIC,
    TABLE_CSV,
    TABLE_PARQUET,
    RunFolder,
)
from privet.runs.run_metrics import Metrics
from privet.runs.session import Session
from privet.runs.set_card import certificate_text
from privet.runs.synthesis_config import RELEASED, SynthesisAsked
from privet.runs.synthesis_course import (
    Paying,
    State,
    certified,
    private_rows,
    reserved,
    summary,
    synthesized,
)
from privet.runs.synthesis_curves import Recorded
from privet.runs.synthesis_images import Wanted
from privet.runs.synthesis_quote import warnings
from privet.runs.table_config import TableConfig
from privet.runs.table_stage import TableStage, staged

_BYTES = 64  # of a value, in both files together, at most but for long names of categories


@dataclass(frozen=True, kw_only=True)
class TableResult(FinishedRun):
    """What a finished run of `privet synthesize` on a table left."""

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        return {
            "guarantee": self.summary["guarantee"],
            "rows": f"{self.summary['rows']:,} in {self.folder / TABLE_CSV} and "
            f"{self.folder / TABLE_PARQUET}",
            "certificate": self.folder / CERTIFICATE,
            "ledger": self.ledger,
        }


def synthesize_table(
    asked: SynthesisAsked,
    session: Session,
    listener: Listener,
    *,
    count: int | None = None,
    png: bool = False,
) -> TableResult:
    """Start a run, go on with one, or make more rows of a finished one.

    Args:
        asked: what was asked for.
        session: how it is carried out.
        listener: told of progress.
        count: how many rows there shall be; None keeps the number of the run that goes on.
        png: refused, since rows are no pictures.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    if png:
        raise ConfigError("--png is for images, and a table has none: leave it out.")
    return synthesized(_Tables(), asked, session, listener, count=count, png=False)


class _Tables(Paying):
    """The making of tables, by DP-MERF."""

    noun = "rows"

    def staged(self, asked: SynthesisAsked, *, seeded: bool, unread: bool) -> TableStage:
        return staged(asked, seeded=seeded)

    def saved(self, body: Mapping[str, Any]) -> TableConfig:
        return TableConfig.from_json(body)

    def check(self, stage: TableStage, session: Session, folder: RunFolder, wanted: Wanted) -> None:
        if session.team.size > 1:
            raise ConfigError("One process makes a table: start it without torchrun.")
        columns = len(stage.config.rows.schema.columns) + 1
        check_free_space(folder.path, MIB + _BYTES * columns * wanted.count)

    def run(
        self,
        stage: TableStage,
        state: State,
        session: Session,
        folder: RunFolder,
        listener: Listener,
        wanted: Wanted,
    ) -> TableResult:
        notes = list(stage.sets.notes)
        if state.reservation is None:
            notes += warnings(stage, stage.signals)
        if session.noise_seed is not None:
            notes.append("The noise is seeded, so this run is NOT private.")
        for sentence in notes:
            listener.note(sentence)
        memory = FolderMemory(folder, stage.config.rows.shape)
        listener = Recorded(listener, Metrics(folder))
        with reserved(stage, state, folder) as reservation:
            require_kept(reservation, memory, folder)
            if not memory.num_paid:
                listener.note("Summarising private rows, behind the hedge; then all is free.")
            made = table_merf(
                private_rows(stage, session, reservation),
                stage.config.rows.schema,
                settings=stage.config.system,
                proportional=stage.config.classes == RELEASED,
                treated_as_public=stage.treated_as_public,
                memory=memory,
                on_step=listener.progress("matching"),
            )
            certified(folder, reservation, made.certificate)
            write_rows(made, folder, listener, wanted.count)
            folder.write(RESULT, _summary(made.certificate, wanted))
        return finished_table(folder, state.ledger)

    def done(self, folder: RunFolder, state: State, wanted: Wanted) -> TableResult:
        return finished_table(folder, state.ledger)


def write_rows(made: SyntheticTable, folder: RunFolder, listener: Listener, count: int) -> None:
    """Write rows as Parquet, and the same as CSV, with their certificate."""
    tell = listener.progress("rows")
    folder.write_with(TABLE_PARQUET, lambda path: _write_parquet(made, path, count, tell))
    folder.write_with(TABLE_CSV, lambda path: _write_csv(folder / TABLE_PARQUET, path))
    text = certificate_text(made.certificate)
    folder.write_with(f"{SYNTHETIC}/{CERTIFICATE}", lambda path: path.write_text(text, "utf-8"))


def finished_table(folder: RunFolder, ledger: str) -> TableResult:
    """Read the result of a finished run from its folder."""
    return TableResult(
        folder=folder.path,
        ledger=folder / ledger,
        summary=folder.read(RESULT),
        certificate=Certificate.from_json(folder.read(CERTIFICATE)),
    )


def _write_parquet(made: SyntheticTable, path: Path, count: int, tell: Any) -> None:
    import pyarrow.parquet as pq

    written = 0
    with pq.ParquetWriter(path, made.batch(0).schema) as writer:
        for rows in made.batches(count):
            writer.write_table(rows)
            written += rows.num_rows
            tell(written, count)


def _write_csv(source: Path, path: Path) -> None:
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as stored, arrow_csv.CSVWriter(path, stored.schema_arrow) as writer:
        for rows in stored.iter_batches():
            writer.write_batch(rows)


def _summary(certificate: Certificate, wanted: Wanted) -> dict[str, Any]:
    return summary("dp-merf", (), certificate, wanted, "rows")
