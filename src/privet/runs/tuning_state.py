"""What a tuning has to remember until it is done, so that another process can go on."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from privet.errors import DataError
from privet.plain_json import WRONG_VALUES, require
from privet.runs.run_folder import LEDGER, TUNING, RunFolder


@dataclass(frozen=True, kw_only=True)
class TuningState:
    """What a tuning remembers until it is done; in the end it is gone, with all it knew of trials.

    Args:
        label: the label under which the ledger knows the tuning.
        ledger: the ledger's file, seen from the folder.
        reservation: the id of the reservation that pays; None until it is written down.
        order: the candidate of each trial; None before it is drawn and after the last trial.
        done: how many trials are done.
        best: the number of the best trial so far; None if there is none.
        score: the score of that trial, higher is better; None if there is none.
        over: whether all trials are done.
        holder: the name under which this folder holds the reservation; None before it does.
    """

    label: str
    ledger: str
    reservation: str | None = None
    order: tuple[int, ...] | None = None
    done: int = 0
    best: int | None = None
    score: float | None = None
    over: bool = False
    holder: str | None = None

    @classmethod
    def new(cls, folder: RunFolder, ledger: str | None) -> TuningState:
        """Write a state before anything is reserved: the ledger knows the tuning by its label."""
        label = f"tune {folder.path.resolve().name} {uuid.uuid4().hex[:8]}"
        return cls(label=label, ledger=ledger or LEDGER).changed(folder)

    @classmethod
    def read(cls, folder: RunFolder) -> TuningState:
        """Read the state from a folder."""
        body = folder.read(TUNING)
        try:
            require(body, label=str, ledger=str, reservation=str | None, done=int, over=bool)
            require(body, best=int | None, score=float | int | None, order=list | None)
            order = None if body["order"] is None else tuple(map(int, body["order"]))
            return cls(**{**body, "order": order})
        except WRONG_VALUES as error:
            raise DataError(f"{TUNING} cannot be read ({error!r}): start again.") from None

    def changed(self, folder: RunFolder, **changes: Any) -> TuningState:
        """Return the state with changes, after they are durable."""
        state = replace(self, **changes)
        folder.write(TUNING, asdict(state))
        return state
