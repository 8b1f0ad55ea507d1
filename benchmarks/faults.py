"""Claim: whatever kills a command at whatever moment, nothing is lost and nothing under-counted.

    python benchmarks/faults.py [--kills 1000] [--only TEXT] [--minutes M]

A process that has imported everything forks one that runs a command of Privet on a few small images
and an owner's ledger, and sends it SIGKILL, SIGTERM or SIGINT at a random moment. Then the command
goes on, by `--resume` or by being typed again, is killed again, and in the end is left alone. What
came before its beginning or after its end is no kill. After each, the ledger counts every result
that left the hedge and at most one more for each kill, and forgets no reservation; no file is half
written under its name. After SIGTERM and SIGINT there are an exit code and one sentence, and no
traceback. In the end certificate, ledger and files agree and open, and no draft is left.

Each job is kept when it is done. With `--minutes` it goes on for so long, whatever there is: a
soak. SIGKILL leaves the page cache alone: this tests atomicity and order, not the loss of power.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import torch

import kept_rows
import machine
import privet.cli
from fault_checks import Place, half_written, paid_runs, strays
from fault_jobs import JOBS, Job, make_warm
from privet.hedge import Hedge, Steps
from privet.runs import train_log

OUT = machine.RESULTS / "faults.json"
KEY = ("command", "number")
MOST_KILLS = 5  # of one job
SHORTER = 0.85  # what is left to be done after each of them, about
PATIENCE = 120.0  # seconds; a command takes about one
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

Kept = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """How one process ended."""

    code: int
    said: str
    ended: bool
    seconds: float


class Phase:
    """When a command began and ended, told by the process that runs it."""

    def __init__(self) -> None:
        self._times = memoryview(mmap.mmap(-1, 16)).cast("d")

    @property
    def begun(self) -> float:
        """0 before that."""
        return self._times[0]

    @property
    def ended(self) -> float:
        """0 before that."""
        return self._times[1]

    def begin(self) -> None:
        """Now."""
        self._times[0] = time.monotonic()

    def end(self) -> None:
        """Now."""
        self._times[1] = time.monotonic()


@dataclass
class Tally:
    """What became of one job."""

    kills: Counter[str] = field(default_factory=Counter)
    late: int = 0
    lost: int = 0
    reservations: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def storm(job: Job, place: Place, typical: dict[str, float], draw: random.Random) -> Kept:
    """One job, from its beginning through a few kills to its end."""
    start, tally, said = time.monotonic(), Tally(), ""
    place.path.mkdir()
    job.ready(place)
    for _ in range(3 * MOST_KILLS):
        number = draw.choice(SIGNALS) if tally.kills.total() < MOST_KILLS else None
        delay = draw.uniform(0, typical[job.name] * SHORTER ** tally.kills.total())
        attempt = attempted(job.next_words(place, said), place, number, delay)
        said = attempt.said
        tally.violations += _faults(job, place, attempt, number, tally)
        if job.is_done(place, attempt.code, said):
            tally.late += number is not None and attempt.code == 0
            if attempt.code == 0 and not sum(tally.kills.values()):
                typical[job.name] = (typical[job.name] + attempt.seconds) / 2
            break
    else:
        tally.violations.append(f"never done: {said.strip()[-200:]}")
    tally.violations += _final_faults(job, place)
    return {
        "command": job.name,
        "number": place.number,
        "kills": dict(tally.kills),
        "late": tally.late,
        "paid_and_lost": tally.lost,
        "results": _left(job, place),
        "counted": sum(tally.reservations.values()),
        "seconds": round(time.monotonic() - start, 2),
        "violations": tally.violations,
    }


def attempted(
    words: list[str], place: Place, number: signal.Signals | None, delay: float
) -> Attempt:
    """A child that runs a command and is killed, or is let live."""
    phase, log = Phase(), place.path.with_suffix(".log")
    child = os.fork()
    if child == 0:
        _live(words, phase, log, place.path.with_suffix(".left"))
    if number is not None:
        until = time.monotonic() + PATIENCE
        while not phase.begun and time.monotonic() < until:
            time.sleep(0.0005)
        _wait(child, delay)
        os.kill(child, number)
    status = _wait(child, PATIENCE)
    if status is None:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        log.write_text(log.read_text() + "\nTraceback: it hung")
    seconds = phase.ended - phase.begun
    return Attempt(os.waitstatus_to_exitcode(status), log.read_text(), bool(phase.ended), seconds)


def _wait(child: int, seconds: float) -> int | None:
    """Its status, if it ends in time; a child that has ended stays to be asked again."""
    until = time.monotonic() + seconds
    while True:
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None or time.monotonic() > until:
            break
        time.sleep(min(0.002, max(0.0, until - time.monotonic())))
    return None if found is None or seconds < PATIENCE else os.waitpid(child, 0)[1]


def _live(words: list[str], phase: Phase, log: Path, left: Path) -> None:
    """The child. It leaves by a signal or `_exit`, as a command would end."""
    code = 1
    try:
        for descriptor in (1, 2):
            os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND), descriptor)
        _witness(os.open(left, os.O_CREAT | os.O_WRONLY | os.O_APPEND))
        _announce(phase)
        privet.cli.main(words)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        phase.end()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _announce(phase: Phase) -> None:
    """From here on a command listens to signals."""
    app = privet.cli.app

    def announced(**settings: Any) -> Any:
        phase.begin()
        return app(**settings)

    privet.cli.app = announced  # type: ignore[assignment]


def _witness(left: int) -> None:
    """Every result that leaves the hedge is noted outside of the ledger."""
    release, step = Hedge.release, Steps.step

    def released(hedge: Hedge, *rest: Any, **more: Any) -> Any:
        found = release(hedge, *rest, **more)
        os.write(left, b"release\n")
        return found

    def stepped(steps: Steps, *rest: Any, **more: Any) -> Any:
        found = step(steps, *rest, **more)
        os.write(left, f"step {steps.number - 1}\n".encode())
        return found

    Hedge.release, Steps.step = released, stepped  # type: ignore[method-assign]


def _left(job: Job, place: Place) -> int:
    """How many spends the results take that left the owner's hedge."""
    path = place.path.with_suffix(".left")
    if job.paid is None or not path.exists():
        return 0
    return job.paid(path.read_text().splitlines())


def _faults(
    job: Job, place: Place, attempt: Attempt, number: signal.Signals | None, tally: Tally
) -> Iterator[str]:
    """Of one attempt, which is counted if it was cut short."""
    if "Traceback" in attempt.said:
        yield f"{number and number.name}: {attempt.said.strip()[-600:]}"
    if number is not None:
        if number == signal.SIGKILL and attempt.code == -signal.SIGKILL and not attempt.ended:
            tally.kills[number.name] += 1
        elif number != signal.SIGKILL and attempt.code == 130:
            tally.kills[number.name] += 1
            sentences = [each for each in attempt.said.splitlines() if "privet: Stopped" in each]
            if len(sentences) != 1:
                yield f"{number.name} was told in {len(sentences)} sentences: {attempt.said!r}"
        elif number != signal.SIGKILL and attempt.code < 0 and not attempt.ended:
            yield f"{number.name} ended it without a word"
    if attempt.code > 0 and attempt.code != 130 and not _refused(attempt.said):
        yield f"code {attempt.code}: {attempt.said.strip()[-300:]}"
    tally.lost += "paid for" in attempt.said and attempt.code == 3
    if job.paid is not None:
        yield from _ledger_faults(job, place, tally)
    yield from half_written(place.path)


def _refused(said: str) -> bool:
    """Whether a sentence says what to do, and the next attempt does it."""
    known = ("with --force", "is declared already", "exists already")
    return said.count("privet: ") == 1 and any(each in said for each in known)


def _ledger_faults(job: Job, place: Place, tally: Tally) -> Iterator[str]:
    """Nothing under-counted, no reservation gone, at most one result more for each kill."""
    found = {each.id: sum(each.spent) for each in paid_runs(place)}
    for name, spent in tally.reservations.items():
        if found.get(name, -1) < spent:
            yield f"reservation {name}: {spent} counted before, {found.get(name)} now"
    tally.reservations = found
    left, counted = _left(job, place), sum(found.values())
    if not left <= counted <= left + tally.kills.total():
        yield f"{left} results left the hedge, {counted} counted, {tally.kills.total()} kills"
    if len(found) > job.runs + tally.lost:
        yield f"{len(found)} reservations for {job.runs}, {tally.lost} of which lost a result"


def _final_faults(job: Job, place: Place) -> Iterator[str]:
    try:
        yield from job.faults(place)
    except Exception as error:
        yield f"what it left cannot be read: {error!r}"
    if found := strays(place.path):
        yield f"left behind: {found}"


def summary(runs: list[Kept]) -> Mapping[str, Any]:
    """All jobs of each command."""
    commands: dict[str, Kept] = {}
    for run in runs:
        row = commands.setdefault(run["command"], {"jobs": 0, "kills": Counter(), "lost": 0})
        row["jobs"] += 1
        row["kills"].update(run["kills"])
        row["lost"] += run["paid_and_lost"]
    return {
        "kills": sum(sum(run["kills"].values()) for run in runs),
        "results": sum(run["results"] for run in runs),
        "counted": sum(run["counted"] for run in runs),
        "violations": sum(len(run["violations"]) for run in runs),
        "minutes": round(sum(run["seconds"] for run in runs) / 60, 1),
        "commands": {name: {**row, "kills": dict(row["kills"])} for name, row in commands.items()},
    }


def make_ready() -> None:
    """What every child inherits."""
    torch.set_num_threads(1)  # threads do not survive a fork
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's `&` turns off
    train_log.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    os.environ["PRIVET_CACHE"] = ""


def main() -> None:
    """Every command in turn, until there are enough kills, or for some minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000, help="In all, those kept included.")
    parser.add_argument("--only", default="", help="Commands whose name contains this text.")
    parser.add_argument("--minutes", type=float, help="Go on for so long, whatever there is.")
    options = parser.parse_args()
    make_ready()
    begun = time.monotonic()

    def enough() -> bool:
        if options.minutes is not None:
            return time.monotonic() - begun > 60 * options.minutes
        return sum(sum(run["kills"].values()) for run in kept_rows.kept(OUT)) >= options.kills

    with tempfile.TemporaryDirectory() as folder:
        chosen = [job for job in JOBS if options.only in job.name]
        typical = warmed(Path(folder), chosen)
        for number in count():
            for job in chosen:
                if enough():
                    return
                if _kept(job, number):
                    continue
                place = job.place(Path(folder), number)
                run = storm(job, place, typical, random.Random(f"{job.name} {number}"))
                kept_rows.keep(OUT, run, KEY, summary)
                print(job.name, number, run["kills"], *run["violations"][:1], flush=True)


def _kept(job: Job, number: int) -> bool:
    key = {"command": job.name, "number": number}
    return any(kept_rows.same_key(run, key) for run in kept_rows.kept(OUT))


def warmed(folder: Path, chosen: list[Job]) -> dict[str, float]:
    """How long each command takes, once all is imported and accounted for here."""
    make_warm(folder / "warm", _in_this_process)
    typical: dict[str, float] = {}
    for job in chosen:
        for name in ("first", "second"):
            place = job.place(folder, 0, name)
            place.path.mkdir()
            job.ready(place)
            if name == "first":
                _in_this_process(job.words(place))
                if "seeded" in job.name:
                    place.out.rename(place.warm / "seeded")
                continue
            attempt = attempted(job.words(place).split(), place, None, 0)
            if attempt.code:
                raise SystemExit(f"{job.name} fails undisturbed: {attempt.said}")
            typical[job.name] = attempt.seconds
        print(job.name, round(typical[job.name], 2), "s", flush=True)
    return typical


def _in_this_process(words: str) -> None:
    try:
        privet.cli.main(words.split())
    except SystemExit as done:
        if done.code:
            raise SystemExit(f"{words} ended with {done.code}") from None


if __name__ == "__main__":
    main()
