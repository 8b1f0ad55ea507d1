"""What a tuning leaves in its folder: the best trial as a run, and the certificate of the whole."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from privet.errors import DataError
from privet.privacy import Certificate, Reservation, certify
from privet.privacy.certificate import SETTINGS
from privet.runs.run_folder import (
    CERTIFICATE,
    CONFIG,
    ENSEMBLE,
    METRICS,
    MODEL,
    RESULT,
    STATE,
    RunFolder,
)
from privet.runs.train_state import RunState
from privet.runs.tuning_config import told
from privet.runs.tuning_stage import Candidate, Tuning
from privet.runs.tuning_state import TuningState


def publish(
    tuning: Tuning, state: TuningState, reservation: Reservation, best: RunFolder, done: RunFolder
) -> None:
    """Write the best trial as a run of its own, under the certificate of the whole.

    It may be done again if need be.
    """
    stored, result = best.read(CONFIG), best.read(RESULT)
    winner = _winner(tuning, stored)
    trials = tuning.search.trials
    certificate = replace(certify(reservation), public=_public(best, tuning))
    own = RunState.from_json(best.read(STATE))
    for name in filter(best.has, (MODEL, ENSEMBLE, METRICS)):
        done.write_with(name, partial(shutil.copyfile, best / name))
    done.write(CERTIFICATE, certificate.to_json())
    paid = replace(own, label=state.label, ledger=state.ledger, reservation=reservation.id)
    done.write(STATE, paid.to_json())
    measured = "perplexity" if "perplexity" in result["test"] else "accuracy"
    words = f"{told(winner.settings)}; the best of a random number of trials ({trials})"
    chose = {
        "settings": dict(winner.settings),
        "candidates": len(tuning.candidates),
        "trials": asdict(trials),
        "chosen_by": f"{measured} on the test rows",
        "in_words": words,
    }
    promised = str(certificate.guarantee) if certificate.private else certificate.statement
    done.write(RESULT, {**result, "guarantee": promised, "tuning": chose})
    terms = winner.config
    done.write(
        CONFIG,
        {
            **stored,
            "asked": winner.asked.placed().given,
            "config": {**stored["config"], "ledger": terms.ledger, "portion": terms.portion},
            "tuning": {"asked": tuning.asked.placed().given, "words": tuning.search.words},
        },
    )


def _winner(tuning: Tuning, stored: Mapping[str, Any]) -> Candidate:
    """Find the candidate of a trial, by what was asked of it."""
    for each in tuning.candidates:
        if each.as_trial.placed().given == stored["asked"]:
            return each
    raise DataError("The best trial is of other settings than the tuning: start again.")


def _public(best: RunFolder, tuning: Tuning) -> tuple[str, ...]:
    """List what a trial treated as public, and what the choice rests on."""
    own = Certificate.from_json(best.read(CERTIFICATE)).public
    return (
        *(each for each in own if each != SETTINGS),
        f"the {len(tuning.candidates):,} candidates that trials drew from, and every other "
        "setting, chosen without looking at private rows",
        "test rows for the choice among trials",
    )
