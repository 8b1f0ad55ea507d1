"""How every run of `privet synthesize` goes: refuse, prepare, make; or go on.

What is made, images or a table, of private or of public rows, is another's business: see `Making`.
A run is durable in this order: its configuration; if it pays (see `Paying`), its name in the
ledger, the reservation and whatever the ledger paid for; the certificate, rows, and the summary,
which marks it as done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from privet import __version__
from privet.errors import ConfigError, Stopped
from privet.hedge import Hedge, Randomness
from privet.plain_json import require
from privet.privacy import Certificate, Reservation
from privet.privacy.records import State as LedgerState
from privet.runs.listening import Listener
from privet.runs.run_folder import CERTIFICATE, CONFIG, LEDGER, STATE, RunFolder, understood
from privet.runs.run_ledger import find_or_reserve, open_ledger
from privet.runs.run_metrics import begin_events, check_events
from privet.runs.saved_config import Saved, require_same
from privet.runs.session import Session, usable_device
from privet.runs.sets import Sets
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_images import Wanted
from privet.runs.synthesis_quote import Settled

_ROWS_PER_BATCH = 500


class Staged(Protocol):
    """A run of `privet synthesize` before anything is done."""

    @property
    def config(self) -> Saved:
        """The configuration, which decides what the run makes."""

    def require_room(self) -> None:
        """Refuse what the owner's ledger would not pay for."""


class PaidStage(Staged, Protocol):
    """The same of a run that will pay."""

    @property
    def config(self) -> Settled:
        """The configuration, which decides what the run makes."""

    @property
    def sets(self) -> Sets[Any]:
        """The rows that were read; the private ones are for the hedge alone."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The run's place in a ledger (see `run_ledger.Place`), and how many rows it began with.

    Later stages are centred on the images of earlier ones: on those that were asked for when the
    release was made, however many are asked for now.
    """

    label: str
    ledger: str
    first_count: int
    reservation: str | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> State:
        """Read the state that a run wrote down."""
        require(body, label=str, ledger=str, first_count=int, reservation=str | None)
        return cls(**{field.name: body[field.name] for field in fields(cls)})


AnyStage = TypeVar("AnyStage", bound=Staged)
AnyState = TypeVar("AnyState")
Result_co = TypeVar("Result_co", covariant=True)


class Making(Protocol[AnyStage, AnyState, Result_co]):
    """What is different for each kind of rows that a run makes."""

    noun: str

    def staged(self, asked: SynthesisAsked, *, seeded: bool, unread: bool) -> AnyStage:
        """Read rows, decide and check; refuse what cannot work."""

    def saved(self, body: Mapping[str, Any]) -> Saved:
        """Read the configuration of a run that was begun."""

    def check(self, stage: AnyStage, session: Session, folder: RunFolder, wanted: Wanted) -> None:
        """Refuse what cannot be made here."""

    def begun(self, stage: AnyStage, folder: RunFolder, wanted: Wanted) -> AnyState:
        """Note what a run must find again that is killed from now on."""

    def found(self, folder: RunFolder) -> AnyState:
        """Find that again; refuse a run that never began."""

    def run(
        self,
        stage: AnyStage,
        state: AnyState,
        session: Session,
        folder: RunFolder,
        listener: Listener,
        wanted: Wanted,
    ) -> Result_co:
        """Do all that touches the ledger and private rows, and all that follows from it."""

    def done(self, folder: RunFolder, state: AnyState, wanted: Wanted) -> Result_co:
        """Return the result of a run that has left all that is wanted."""


class Paying:
    """What is the same for every kind of rows that a ledger pays for."""

    def begun(self, stage: PaidStage, folder: RunFolder, wanted: Wanted) -> State:
        """Give the run a name in its ledger."""
        state = State(
            label=f"synthesize {folder.path.resolve().name} {uuid.uuid4().hex[:8]}",
            ledger=stage.config.ledger or LEDGER,
            first_count=wanted.count,
        )
        folder.write(STATE, asdict(state))
        return state

    def found(self, folder: RunFolder) -> State:
        """Read under which name the run reserved, or was about to."""
        if not folder.has(STATE):
            raise ConfigError(f"The run in {folder} never began: start it again with --force.")
        with understood(folder):
            return State.from_json(folder.read(STATE))


def synthesized(
    making: Making[AnyStage, AnyState, Result_co],
    asked: SynthesisAsked,
    session: Session,
    listener: Listener,
    *,
    count: int | None,
    png: bool,
) -> Result_co:
    """Start a run, go on with one, or make more rows of a finished one.

    Args:
        making: what is made, and how.
        asked: what was asked for.
        session: how it is carried out.
        listener: told of progress.
        count: how many rows there shall be; None keeps the number of the run that goes on.
        png: write them as PNG files too; a run that did before goes on to.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    if session.noise_seed is not None and session.noise_seed < 0:
        raise ConfigError(
            f"--noise-seed is {session.noise_seed}: give a whole number from 0 upwards."
        )
    _ = usable_device(session.device)
    folder = RunFolder(session.out, "synthesize")
    check_events(folder, asked=session.tensorboard, resume=session.resume)
    try:
        if session.resume:
            return _resume(making, asked, session, folder, listener, count, png)
        if count is None:
            raise ConfigError(f"Give --count: how many {making.noun} to make.")
        return _begin(making, asked, session, folder, listener, Wanted(count=count, png=png))
    except KeyboardInterrupt:
        if session.force:
            raise Stopped("Stopped before anything was spent: run it again.") from None
        raise folder.stopped(began=session.resume) from None


def _begin(
    making: Making[AnyStage, AnyState, Result_co],
    asked: SynthesisAsked,
    session: Session,
    folder: RunFolder,
    listener: Listener,
    wanted: Wanted,
) -> Result_co:
    folder.check_idle()
    folder.check_free(force=session.force)
    stage = making.staged(asked, seeded=session.noise_seed is not None, unread=False)
    stage.require_room()
    with folder.claimed():
        folder.check_free(force=session.force)  # another process may have been quicker
        making.check(stage, session, folder, wanted)
        kept = folder.clear()
        if kept is not None:
            listener.note(f"The earlier run's ledger is kept as {kept}: what it spent stays spent.")
        body = {
            "schema": folder.schema,
            "privet_version": __version__,
            "asked": asked.placed().given,
            "config": stage.config.to_json(),
        }
        folder.write(CONFIG, {**body, **asdict(wanted)})
        if session.tensorboard:
            begin_events(folder)
        state = making.begun(stage, folder, wanted)
        return _run(making, stage, state, session, folder, listener, wanted)


def _resume(
    making: Making[AnyStage, AnyState, Result_co],
    asked: SynthesisAsked,
    session: Session,
    folder: RunFolder,
    listener: Listener,
    count: int | None,
    png: bool,
) -> Result_co:
    folder.refuse_other_layouts()
    if not folder.holds_run:
        raise ConfigError(f"{folder} holds no run to go on with: start one without --resume.")
    with folder.claimed():
        state = making.found(folder)
        stored = folder.read(CONFIG)
        with understood(folder):
            require(stored, count=int, png=bool)
            wanted = Wanted(count=stored["count"], png=stored["png"]).grown(count, png)
        stage = making.staged(
            asked.over(stored["asked"]),
            seeded=session.noise_seed is not None,
            unread=folder.has(CERTIFICATE),  # private rows have served their turn
        )
        require_same(making.saved(stored["config"]), stage.config)
        if session.tensorboard:
            begin_events(folder)
        if wanted.made(folder):
            listener.note("The run is done already.")
            return making.done(folder, state, wanted)
        making.check(stage, session, folder, wanted)
        folder.write(CONFIG, {**stored, **asdict(wanted)})
        return _run(making, stage, state, session, folder, listener, wanted)


def _run(
    making: Making[AnyStage, AnyState, Result_co],
    stage: AnyStage,
    state: AnyState,
    session: Session,
    folder: RunFolder,
    listener: Listener,
    wanted: Wanted,
) -> Result_co:
    try:
        return making.run(stage, state, session, folder, listener, wanted)
    except KeyboardInterrupt:
        raise folder.stopped(began=True) from None


@contextmanager
def reserved(stage: PaidStage, state: State, folder: RunFolder) -> Iterator[Reservation]:
    """Find or make the run's reservation, and note it in its folder."""
    config = stage.config
    with closing(open_ledger(config, state, folder)) as ledger:
        reservation = find_or_reserve(
            ledger,
            state,
            lambda: ledger.reserve(
                epsilon=config.budget.epsilon,
                label=state.label,
                portion=config.portion,
                split=config.split,
            ),
        )
        folder.write(STATE, asdict(replace(state, reservation=reservation.id)))
        yield reservation


def private_rows(stage: PaidStage, session: Session, reservation: Reservation) -> Hedge:
    """Put the private rows behind a hedge."""
    return Hedge(
        stage.sets.private,
        reservation,
        users=stage.sets.users,
        declared_size=stage.config.declared_size,
        physical_batch=_ROWS_PER_BATCH,
        randomness=Randomness(session.noise_seed),
        device=usable_device(session.device),
    )


def certified(folder: RunFolder, reservation: Reservation, certificate: Certificate) -> None:
    """Write the certificate, and close the reservation: nothing more will be paid for."""
    folder.write(CERTIFICATE, certificate.to_json())
    if reservation.record.state is not LedgerState.CLOSED:
        reservation.close()


def summary(
    method: str, choices: tuple[str, ...], certificate: Certificate, wanted: Wanted, noun: str
) -> dict[str, Any]:
    """Make the summary that marks a run as done."""
    return {
        "schema": "privet.result/1",
        "method": method,
        "choices": list(choices),
        "guarantee": str(certificate.guarantee) if certificate.private else certificate.statement,
        noun: wanted.count,
        "png": wanted.png,
        "releases": [str(each) for each in certificate.plan.events],
    }
