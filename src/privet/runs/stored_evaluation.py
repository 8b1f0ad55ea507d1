"""What `privet evaluate` found, in the run's folder: for reports, and for whoever asks later.

It goes when what it is of changes: with a new run in the folder, and with more images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.runs.run_folder import EVALUATION, MEMORISATION, RunFolder

SCHEMA = "privet.evaluation/1"


class Kind(StrEnum):
    """What was evaluated."""

    MODEL = "model"
    SET = "set"


def store(
    folder: RunFolder, kind: Kind, body: Mapping[str, Any], note: Callable[[str], object]
) -> None:
    """Write what was found, in place of what was found before.

    A folder that may only be read is no reason to fail.
    """
    try:
        folder.write(EVALUATION, {"schema": SCHEMA, "kind": kind.value, **body})
    except ConfigError as error:
        note(f"What was found is shown and not kept: {error}")


def stored(folder: RunFolder, kind: Kind) -> dict[str, Any] | None:
    """Read what was found last; None if nothing was."""
    if not folder.has(EVALUATION):
        return None
    found = folder.read(EVALUATION, remedy="run 'privet evaluate' again")
    if not isinstance(found, dict) or (found.get("schema"), found.get("kind")) != (SCHEMA, kind):
        raise DataError(
            f"{shown(folder / EVALUATION)} is of another version: run 'privet evaluate' again."
        )
    return found


def forget(folder: RunFolder) -> None:
    """Remove what was found of images that are about to change."""
    for name in (EVALUATION, MEMORISATION):
        folder.discard(name)
