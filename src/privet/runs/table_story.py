"""What a page tells of a run of `privet synthesize` that made a table."""

from __future__ import annotations

from collections.abc import Iterator

from privet.data.guard import shown
from privet.report import Figure, Privacy, Story
from privet.runs.finished_set import finished_table_config
from privet.runs.model_story import epsilon_figure
from privet.runs.run_folder import RESULT, RunFolder
from privet.runs.run_story import (
    command_of,
    name_of,
    privacy_of,
    settings_of,
    source_of,
    versions_of,
)
from privet.runs.set_story import loss_curves


def table_story(folder: RunFolder) -> Story:
    """Read from its folder what a page tells of a run that made a table."""
    schema, result = finished_table_config(folder).rows.schema, folder.read(RESULT)
    privacy, rows = privacy_of(folder), result["rows"]
    used = sum(bool(each.width) for each in schema.columns)
    use = "Anyone may use them for anything: what is done with them costs no more privacy."
    if not privacy.private:
        use = "They are NOT private: keep them to yourself."
    return Story(
        name=name_of(folder),
        title="A private synthetic table" if privacy.private else "A synthetic table, NOT private",
        lead=(
            f"{rows:,} rows with {used} columns beside {shown(repr(schema.target))}, which has "
            f"{len(schema.classes)} classes, made by {result['method']} from {source_of(folder)}. "
            f"{use}"
        ),
        figures=tuple(_figures(rows, privacy)),
        privacy=privacy,
        curves=tuple(loss_curves(folder)),
        settings=settings_of(folder),
        versions=versions_of(folder),
        command=command_of(folder, count=rows),
    )


def _figures(rows: int, privacy: Privacy) -> Iterator[Figure]:
    yield Figure(f"{rows:,}", "synthetic rows")
    yield epsilon_figure(privacy)
