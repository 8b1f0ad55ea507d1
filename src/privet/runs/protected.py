"""Rows that a ledger protects are no test rows: what is measured on them leaves without noise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from privet.data.guard import shown
from privet.errors import PrivacyError
from privet.privacy import Ledger
from privet.runs.merged_config import sources_of
from privet.runs.origins import is_made_of, reads_private
from privet.runs.run_folder import PARTIES, STATE, RunFolder


def refuse_protected(folder: RunFolder, test: str) -> list[str]:
    """Refuse test rows that any run protects which shares a ledger with this one.

    Return sentences about ledgers that could not be asked.

    Args:
        folder: a finished run, a merge, or the server of a federation.
        test: where the rows lie that somebody wants to measure on.
    """
    notes = []
    for path in _ledgers(folder):
        if not os.access(path, os.R_OK):
            notes.append(f"{shown(path)} is not here to say whether it protects the test rows.")
            continue
        with closing(Ledger.open(path)) as ledger:
            protected = ledger.protected()
        for source, label in protected.items():
            if reads_private("test", test, source) or is_made_of(test, source):
                raise PrivacyError(
                    f"{shown(test)} has rows that {label} protects, and a measure of them has no "
                    "noise: give --test rows that are not private."
                )
    return notes


def _ledgers(folder: RunFolder) -> Iterator[Path]:
    """The ledgers of a run, of all runs that were merged, or of parties that are simulated."""
    if not folder.has(STATE):
        for place in sorted((folder.path.parent / PARTIES).glob(f"*/{STATE}")):
            yield from _ledgers(RunFolder(place.parent, folder.command))
        return
    state = folder.read(STATE)
    if "runs" in state:
        yield from (Path(each.ledger) for each in sources_of(folder))
    else:
        yield folder / state["ledger"]
