"""Claim: a process killed at any moment never makes its ledger forget what left the hedge.

A forked child reserves and releases in a loop and notes, in a witness file, every reservation it
was granted and every result it received. It is killed (SIGKILL) after a random delay. Its ledger
must then open, must count everything witnessed, and at most one spend more; an open reservation
must be resumable for exactly what remains. Half of the kills share one ledger, each of the others
gets a ledger that the child itself creates.

SIGKILL leaves the page cache alone: this tests atomicity and order, not the loss of power.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privet.errors import PrivacyError
from privet.hedge import GaussianSum, Hedge, PerRow, PoissonSum
from privet.privacy import Ledger, Plan, Reservation
from privet.privacy.filter import RenyiFilter
from privet.privacy.records import Record, State

RELEASE = GaussianSum(clip_norm=1.0, noise_multiplier=900.0)
STEP = PoissonSum(clip_norm=1.0, noise_multiplier=400.0, sampling_rate=0.25)
PLANS = (
    Plan.of(RELEASE.event.times(3)),
    Plan.of(STEP.event.times(4)),
    Plan.of(RELEASE.event.times(2), STEP.event.times(3)),
)
TERMS: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "relation": "add-remove"}
ROWS = np.linspace(-1, 1, 32 * 4, dtype=np.float32).reshape(32, 4)
LONGEST_LIFE = 0.02  # seconds; a reservation or a release takes about one thousandth
PHASES = ("starting", "creating", "opening", "reserving", "releasing", "closing")


def storm(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill `kills` children, alternately on one lasting ledger and on fresh ones, and audit."""
    torch.set_num_threads(1)  # a fork with worker threads would deadlock
    _warm_up(folder / "warm.db")
    rng, tally = random.Random(seed), _Tally()
    lasting, everything = folder / "lasting.db", _Witness()
    Ledger.create(lasting, **TERMS).close()
    for number in range(kills):
        path = folder / f"fresh-{number}.db" if number % 2 else lasting
        seen = _Witness() if number % 2 else everything
        phase = _kill_one(path, seen, folder / f"witness-{number}", rng)
        tally.killed_while[PHASES[phase]] += 1
        tally.errors += seen.errors
        if path.exists():
            _audit(path, seen, rng, tally)
    return tally.summary()


@dataclass
class _Witness:
    """What is known to have happened on one ledger, from outside of it."""

    plans: dict[str, int] = field(default_factory=dict)
    left: Counter[tuple[str, int]] = field(default_factory=Counter)
    closing: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    kills: int = 0

    def read(self, path: Path) -> None:
        """Add a dead child's notes."""
        self.kills += 1
        self.errors = []
        for line in path.read_text().splitlines() if path.exists() else ():
            match line.split(" ", 2):
                case ["reserved", reservation, plan]:
                    self.plans[reservation] = int(plan)
                case ["left", reservation, event]:
                    self.left[reservation, int(event)] += 1
                case ["closing", reservation]:
                    self.closing.add(reservation)
                case _:
                    self.errors.append(line)


@dataclass
class _Tally:
    """What the whole storm comes to."""

    killed_while: Counter[str] = field(default_factory=Counter)
    ledgers: set[Path] = field(default_factory=set)
    reservations: Counter[Path] = field(default_factory=Counter)
    witnessed: Counter[Path] = field(default_factory=Counter)
    counted: Counter[Path] = field(default_factory=Counter)
    resumed: int = 0
    spent_after_resuming: int = 0
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "kills": self.killed_while.total(),
            "killed_while": {phase: self.killed_while[phase] for phase in PHASES},
            "ledgers": len(self.ledgers),
            "reservations": self.reservations.total(),
            "witnessed_results": self.witnessed.total(),
            "counted_results": self.counted.total(),
            "resumed_reservations": self.resumed,
            "spent_after_resuming": self.spent_after_resuming,
            "child_errors": self.errors,
            "violations": self.violations,
        }


def _warm_up(path: Path) -> None:
    """Import and cache whatever a child would otherwise spend its short life on."""
    ledger = Ledger.create(path, **TERMS)
    for plan in PLANS:
        _spend_all(ledger.reserve(plan=plan))
    ledger.remaining()
    ledger.close()


def _kill_one(path: Path, seen: _Witness, notes: Path, rng: random.Random) -> int:
    """Fork, wait a moment, kill; returns what the child was doing. No connection crosses."""
    phase = mmap.mmap(-1, 1)
    delay, seed = rng.uniform(0, LONGEST_LIFE), rng.getrandbits(32)
    # Most children are let into their loop first, however slow the machine is at starting them.
    first = PHASES.index("reserving") if rng.random() < 0.8 else 0
    child = os.fork()
    if child == 0:
        _live(path, notes, phase, random.Random(seed))
    latest = time.monotonic() + 5
    while phase[0] < first and time.monotonic() < latest:
        time.sleep(0.0005)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    seen.read(notes)
    return phase[0]


def _live(path: Path, notes: Path, phase: mmap.mmap, rng: random.Random) -> None:
    """The child: reserve, release, note, for ever. It leaves only by a signal or `_exit`."""
    descriptor = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        if not path.exists():
            phase[0] = PHASES.index("creating")
            Ledger.create(path, **TERMS)
        phase[0] = PHASES.index("opening")
        ledger = Ledger.open(path)
        while True:
            _one_run(ledger, descriptor, phase, rng)
    except BaseException:
        os.write(descriptor, repr(traceback.format_exc()).encode() + b"\n")
    finally:
        os._exit(1)


def _one_run(ledger: Ledger, notes: int, phase: mmap.mmap, rng: random.Random) -> None:
    number = rng.randrange(len(PLANS))
    phase[0] = PHASES.index("reserving")
    reservation = ledger.reserve(plan=PLANS[number])
    os.write(notes, f"reserved {reservation.id} {number}\n".encode())
    phase[0] = PHASES.index("releasing")
    for event, count in enumerate(_counts(PLANS[number])):
        spend = _spender(reservation, event)
        for _ in range(rng.randint(1, count)):
            spend()
            os.write(notes, f"left {reservation.id} {event}\n".encode())
    if rng.random() < 0.5:
        phase[0] = PHASES.index("closing")
        os.write(notes, f"closing {reservation.id}\n".encode())
        reservation.close()


def _spender(reservation: Reservation, event: int) -> Any:
    """A function that lets one result of a planned event leave the hedge."""
    hedge, summand = Hedge({"x": ROWS}, reservation), PerRow(lambda units: units["x"], size=4)
    if reservation.plan.events[event].times(1) == RELEASE.event:
        return lambda: hedge.release(summand, RELEASE)
    steps = hedge.steps(STEP, first=reservation.record.spent[event])
    return lambda: steps.step(summand)


def _counts(plan: Plan) -> tuple[int, ...]:
    return tuple(event.count for event in plan.events)


def _spend_all(reservation: Reservation) -> Counter[int]:
    """Spend what remains of every planned event, until refused; how many of each that was."""
    done: Counter[int] = Counter()
    for event, count in enumerate(_counts(reservation.plan)):
        spend = _spender(reservation, event)
        try:
            for _ in range(count + 1):
                spend()
                done[event] += 1
        except PrivacyError:
            continue
    return done


def _audit(path: Path, seen: _Witness, rng: random.Random, tally: _Tally) -> None:
    """Hold a dead child's ledger against the witness, then go on with one of its reservations."""
    try:
        ledger = Ledger.open(path)
        records = {record.id: record for record in ledger.records()}
        tally.violations += [f"{path.name}: {fault}" for fault in _faults(ledger, records, seen)]
        _resume_one(ledger, records, seen, rng, tally)
        _count(path, ledger, seen, tally)
        ledger.close()
    except PrivacyError as error:
        tally.violations.append(f"{path.name}: {error}")


def _faults(ledger: Ledger, records: dict[str, Record], seen: _Witness) -> list[str]:
    faults = [f"{key} was granted and is gone" for key in seen.plans if key not in records]
    surplus = 0
    for record in records.values():
        if record.plan is None or (
            record.id in seen.plans and record.plan != PLANS[seen.plans[record.id]]
        ):
            faults.append(f"{record.id} has another plan")
            continue
        if record.state is not State.OPEN and record.id not in seen.closing:
            faults.append(f"{record.id} is {record.state.value}, which nobody asked for")
        for event, count in enumerate(_counts(record.plan)):
            left, spent = seen.left[record.id, event], record.spent[event]
            surplus += spent - left
            if not left <= spent <= count:
                faults.append(f"{record.id}: {left} results left, {spent} of {count} counted")
    if surplus > seen.kills:
        faults.append(f"{surplus} spends more than results after {seen.kills} kills")
    if ledger.remaining() > _room(ledger, seen) + 1e-9:
        faults.append("more is left than the witnessed reservations allow")
    return faults


def _room(ledger: Ledger, seen: _Witness) -> float:
    """What would be left if only the witnessed plans and results had ever happened."""
    events = []
    for key, number in seen.plans.items():
        for index, event in enumerate(PLANS[number].events):
            count = seen.left[key, index] if key in seen.closing else event.count
            events += [event.times(count)] if count else []
    if not events:  # a single plan may fill the ledger by itself
        return ledger.budget.epsilon
    return RenyiFilter.for_budget(ledger.budget, ledger.relation).room_for(events)


def _resume_one(
    ledger: Ledger, records: dict[str, Record], seen: _Witness, rng: random.Random, tally: _Tally
) -> None:
    """Exactly what remains of an open reservation can be spent; then it and others are closed."""
    alive = [record for record in records.values() if record.state is State.OPEN]
    if not alive:
        return
    # The last one was in use at the kill, so it is the one to prefer.
    chosen = alive[-1] if rng.random() < 0.7 else rng.choice(alive)
    reservation = ledger.resume(chosen.id)
    done = _spend_all(reservation)
    for event, count in enumerate(_counts(reservation.plan)):
        if done[event] != count - chosen.spent[event]:
            tally.violations.append(
                f"{chosen.id}: {done[event]} spends after resuming, {chosen.spent[event]} of "
                f"{count} before"
            )
        seen.left[chosen.id, event] += done[event]
    if reservation.record.spent != _counts(reservation.plan):
        tally.violations.append(f"{chosen.id}: spends after resuming were not all counted")
    tally.resumed += 1
    tally.spent_after_resuming += done.total()
    for record in alive:
        seen.closing.add(record.id)
        ledger.resume(record.id).close()


def _count(path: Path, ledger: Ledger, seen: _Witness, tally: _Tally) -> None:
    records = ledger.records()
    tally.ledgers.add(path)
    tally.reservations[path] = len(records)
    tally.witnessed[path] = seen.left.total()
    tally.counted[path] = sum(sum(record.spent) for record in records)


def main() -> None:
    """Run the storm and keep the result."""
    import machine

    options = machine.arguments(__doc__ or "", kills=400, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        results = storm(Path(folder), options.kills, options.seed)

    def text() -> str:
        return (
            f"{results['kills']} kills, {results['reservations']} reservations: "
            f"{results['witnessed_results']} results witnessed, {results['counted_results']} "
            f"counted, {len(results['violations'])} violations, "
            f"{len(results['child_errors'])} child errors; killed while {results['killed_while']}"
        )

    machine.keep("crash_ledger", results, text, seeds=[options.seed], json_=options.json)
    if results["violations"] or results["child_errors"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
