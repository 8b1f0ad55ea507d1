"""`privet tune` from beginning to end: a random number of trials, of which the best is kept.

A trial is an ordinary run in a folder of its own, with a ledger that is thrown away with it: what
pays for all of them is one reservation, spent before their number is drawn. That number, which
candidate each trial takes and the best score so far are kept until the last trial is done, so that
a killed tuning goes on with the same ones; neither they nor any other trial are there at the end.

Formal guarantees:
    * Trials are independent and of one law. Each draws its candidate and its noise anew; a killed
      one goes on from its last checkpoint with fresh noise in the place of what was lost. Nobody
      saw that, and nothing depends on it: the law of what a trial shows is that of one that was
      never killed. Lost steps are not paid again as in a run by itself, since a trial with fewer
      steps would be one of another law.
    * A trial is judged by what left its hedge and by rows that are not private. One whose weights
      grow beyond all bounds is the worst of all. Of equals the first is kept.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from privet import __version__
from privet.errors import ConfigError, PrivacyError, Stopped
from privet.learn.training import Diverged
from privet.privacy import Ledger, Plan, Reservation, Selection
from privet.privacy.store import BESIDE
from privet.runs.aside import require_same_rows
from privet.runs.listening import News, StepListener
from privet.runs.run_folder import CONFIG, LEDGER, RESULT, STATE, TRIALS, TUNING, RunFolder
from privet.runs.run_ledger import find_or_reserve, open_ledger
from privet.runs.run_terms import PrivateTerms
from privet.runs.saved_config import first_difference
from privet.runs.session import Session
from privet.runs.train_config import Asked
from privet.runs.train_result import RunResult, finished
from privet.runs.train_run import train
from privet.runs.train_state import RunState
from privet.runs.trial import Trial
from privet.runs.tuned_run import publish
from privet.runs.tuning_config import Search
from privet.runs.tuning_stage import Candidate, Tuning, staged_tuning
from privet.runs.tuning_state import TuningState

_LEDGER_FILES = (*(f"{LEDGER}{suffix}" for suffix in BESIDE), LEDGER)
_KEEP_IT = (
    "How many trials there are is part of what protects: whoever watches can count them, so keep "
    "to yourself what you see before the end."
)


def tune(
    asked: Asked, search: Search | None, session: Session, listener: StepListener
) -> RunResult:
    """Start a tuning, or go on with one.

    Args:
        asked: what all trials have in common.
        search: what trials try; None to go on with what was searched.
        session: how it is carried out.
        listener: told of everything but the number of trials.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    if session.team.size > 1:
        raise ConfigError("One process goes through all trials: start it without torchrun.")
    folder = RunFolder(session.out, "tune")
    try:
        go = _resume if session.resume else _begin
        return go(asked, search, session, folder, listener)
    except (Stopped, KeyboardInterrupt):
        if not folder.holds_run:
            raise Stopped("Stopped before anything was spent: run it again.") from None
        raise Stopped(f"Stopped: go on with {folder.command_to_resume}") from None


def _begin(
    asked: Asked, search: Search | None, session: Session, folder: RunFolder, listener: StepListener
) -> RunResult:
    assert search is not None
    folder.check_idle()
    _check_free(folder, force=session.force)
    tuning = staged_tuning(asked, search, noise_seed=session.noise_seed, device=session.device)
    for sentence in tuning.warnings:
        listener.note(sentence)
    chosen = tuning.selection()
    with folder.claimed():
        _check_free(folder, force=session.force)
        shutil.rmtree(folder / TRIALS, ignore_errors=True)
        kept = folder.clear()
        if kept is not None:
            listener.note(f"The earlier run's ledger is kept as {kept}: what it spent stays spent.")
        body = {
            "schema": folder.schema,
            "privet_version": __version__,
            "asked": asked.placed().given,
            "search": search.to_json(),
            "aside": tuning.terms.data.aside,
            "seeded": session.noise_seed is not None,
        }
        folder.write(CONFIG, body)
        state = TuningState.new(folder, tuning.terms.ledger)
        return _run(tuning, lambda: chosen, state, session, folder, listener)


def _resume(
    asked: Asked, search: Search | None, session: Session, folder: RunFolder, listener: StepListener
) -> RunResult:
    done = RunFolder(session.out)
    if done.holds_run and "tuning" in done.read(CONFIG):
        with done.claimed():
            _tidy(done)
            listener.note("The tuning is done already.")
            return finished(done)
    folder.refuse_other_layouts()
    if not folder.holds_run:
        raise ConfigError(f"{folder} holds no tuning to go on with: start one without --resume.")
    with folder.claimed():
        stored = folder.read(CONFIG)
        asked = _same(asked, search, session, stored)
        tuning = staged_tuning(
            asked,
            Search.from_json(stored["search"]),
            noise_seed=session.noise_seed,
            device=session.device,
        )
        require_same_rows(stored.get("aside", ""), tuning.terms.data.aside)
        begun = folder.has(TUNING)
        state = TuningState.read(folder) if begun else TuningState.new(folder, tuning.terms.ledger)
        return _run(tuning, tuning.selection, state, session, folder, listener)


def _same(
    asked: Asked, search: Search | None, session: Session, stored: Mapping[str, Any]
) -> Asked:
    """Return what was asked for; refuse where something else is asked for now."""
    if stored["seeded"] != (session.noise_seed is not None):
        raise ConfigError(
            "A tuning with seeded noise needs the same --noise-seed again, and no other may have "
            "one."
        )
    whole = asked.over(stored["asked"]).placed()
    now = {
        "asked": whole.given,
        "search": (stored["search"] if search is None else search.to_json()),
    }
    difference = first_difference({name: stored[name] for name in now}, now)
    if difference is not None:
        raise ConfigError(
            f"The setting {difference}: resume with the same settings, or start another run."
        )
    return whole


def _check_free(folder: RunFolder, *, force: bool) -> None:
    """Refuse a folder whose tuning, or the run that it became, may not be replaced."""
    done = RunFolder(folder.path)
    (done if done.holds_run else folder).check_free(force=force)


def _run(
    tuning: Tuning,
    selection: Callable[[], Selection],
    state: TuningState,
    session: Session,
    folder: RunFolder,
    listener: StepListener,
) -> RunResult:
    """Do all that touches the ledger and private rows."""
    terms = tuning.terms
    with closing(open_ledger(terms, state, folder)) as ledger:
        reservation = find_or_reserve(
            ledger, state, lambda: _reserved(ledger, selection(), state, terms)
        )
        state = state.changed(folder, reservation=reservation.id)
        if not state.over:
            plan = reservation.plan
            listener.note(f"Plan: {plan}; {tuning.guarantee(plan)}.")
            listener.note(_KEEP_IT)
            # Of a folder and its copy the one that went on last makes the choice, and no other.
            state = state.changed(folder, holder=uuid.uuid4().hex)
            reservation.hold(str(state.holder))
            state = _drawn(tuning, state, reservation, session, folder)
            state = _tried(tuning, state, reservation, session, folder, listener)
        reservation.close(state.holder)
        if state.best is None:
            raise PrivacyError(
                "In every trial the weights grew beyond all bounds, and what was reserved is "
                "spent: try lower learning rates."
            )
        done, best = RunFolder(folder.path), RunFolder(_place(folder, state.best))
        publish(tuning, state, reservation, best, done)
    _tidy(done)
    return finished(done)


def _reserved(
    ledger: Ledger, chosen: Selection, state: TuningState, terms: PrivateTerms
) -> Reservation:
    return ledger.reserve(
        plan=Plan((chosen,)), label=state.label, portion=terms.portion, split=terms.split
    )


def _drawn(
    tuning: Tuning,
    state: TuningState,
    reservation: Reservation,
    session: Session,
    folder: RunFolder,
) -> TuningState:
    """Draw the number of trials and the candidate of each: paid for before, and drawn once."""
    if state.order is not None:
        return state
    chosen = _selection(reservation)
    size = tuning.terms.declared_size
    assert size is not None
    reservation.declare_size(size)
    if session.noise_seed is not None:
        reservation.mark_seeded()
    if reservation.remaining(chosen):
        reservation.spend(chosen)
    random: Random = secrets.SystemRandom()
    if session.noise_seed is not None:
        random = Random(_seed(session.noise_seed, -1))
    number = chosen.trials.draw(random)
    order = tuple(random.randrange(len(tuning.candidates)) for _ in range(number))
    return state.changed(folder, order=order)


def _tried(
    tuning: Tuning,
    state: TuningState,
    reservation: Reservation,
    session: Session,
    folder: RunFolder,
    listener: StepListener,
) -> TuningState:
    """Do all trials that are left; in the end nothing tells how many there were."""
    assert state.order is not None
    while state.done < len(state.order):
        _forget(folder, state.best, state.done)
        reservation.require_live()
        candidate = tuning.candidates[state.order[state.done]]
        score = _score(candidate, state.done, reservation, session, folder, Hushed(listener))
        trial = RunFolder(_place(folder, state.done)).read(CONFIG)["config"]
        require_same_rows(candidate.config.data.aside, trial["data"]["aside"])
        best = {}
        if score is not None and (state.score is None or score > state.score):
            best = {"best": state.done, "score": score}
        state = state.changed(folder, done=state.done + 1, **best)
    _forget(folder, state.best)
    return state.changed(folder, order=None, done=0, score=None, over=True)


def _score(
    candidate: Candidate,
    number: int,
    reservation: Reservation,
    session: Session,
    folder: RunFolder,
    listener: Hushed,
) -> float | None:
    """Train a trial and tell how good it is; None if its weights grew beyond all bounds."""
    place = RunFolder(_place(folder, number))
    resume = place.holds_run
    if resume:
        _pay_afresh(place)
    elif place.path.exists():
        shutil.rmtree(place.path)
    seed = None if session.noise_seed is None else _seed(session.noise_seed, number)
    own = Session(out=place.path, resume=resume, noise_seed=seed, device=session.device)
    trial = Trial(
        steps=candidate.steps(_selection(reservation)),
        epsilon=reservation.guarantee.epsilon,
        secure_noise=reservation.ledger.secure_noise,
    )
    try:
        found = train(candidate.as_trial, own, listener, trial).summary["test"]
    except Diverged:
        return None
    if "perplexity" in found:
        return -float(found["perplexity"])
    return float(found["accuracy"])


def _pay_afresh(place: RunFolder) -> None:
    """A ledger that pays for what a kill lost, in the place of the trial's: see the guarantees."""
    if place.has(RESULT) or not place.has(STATE):
        return
    state = RunState.from_json(place.read(STATE))
    label = f"trial {uuid.uuid4().hex[:8]}"
    place.write(STATE, replace(state, label=label, reservation=None).to_json())
    for name in _LEDGER_FILES:
        place.discard(name)


def _selection(reservation: Reservation) -> Selection:
    [event] = reservation.plan.events
    if not isinstance(event, Selection):
        raise PrivacyError("The reservation pays for something else than trials: start again.")
    return event


def _place(folder: RunFolder, number: int) -> Path:
    return folder / TRIALS / f"{number:06d}"


def _forget(folder: RunFolder, *wanted: int | None) -> None:
    """Remove all trials but these."""
    names = {f"{number:06d}" for number in wanted if number is not None}
    for place in (folder / TRIALS).glob("*"):
        if place.name not in names:
            shutil.rmtree(place)


def _tidy(done: RunFolder) -> None:
    """Remove what only a tuning needs."""
    shutil.rmtree(done / TRIALS, ignore_errors=True)
    done.discard(TUNING)


def _seed(noise_seed: int, number: int) -> int:
    """The seed of one trial, or of their number (-1), for tests."""
    digest = hashlib.blake2b(f"trial {noise_seed} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


class Hushed:
    """Hears of a trial's steps, and passes on no sentence: they could be counted."""

    def __init__(self, listener: StepListener) -> None:
        self._listener = listener

    def note(self, sentence: str) -> None:
        """Pass nothing on."""

    def step(self, news: News) -> None:
        """Pass a step on, for a bar."""
        self._listener.step(news)

    def progress(self, name: str) -> Callable[[int, int], None]:
        """Pass progress on, for a bar."""
        return self._listener.progress(name)

    def stopping(self) -> None:
        """Pass on that Ctrl-C was noticed."""
        self._listener.stopping()
