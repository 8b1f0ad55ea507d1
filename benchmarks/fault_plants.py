"""Claim: `faults.py` would have seen a fault: each of those that are planted here is found.

    python benchmarks/fault_plants.py

Spends that are not written, files that are written in place, a command that does not hear SIGTERM,
drafts that stay: a few jobs of one command each, and how many violations were found.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import privet.cli
from fault_jobs import JOBS
from faults import make_ready, storm, warmed
from machine import RESULTS, facts, write
from privet.privacy.reservation import Reservation, _slot
from privet.runs.run_folder import RunFolder

JOBS_EACH = 4


@contextmanager
def planted(owner: Any, name: str, fault: Any) -> Iterator[None]:
    """For a while."""
    before = getattr(owner, name)
    setattr(owner, name, fault)
    try:
        yield
    finally:
        setattr(owner, name, before)


def forgetful(spend: Callable[..., Any]) -> Callable[..., Any]:
    """A ledger that does not write down every spend."""

    def spent(reservation: Reservation, event: Any) -> Any:
        if random.random() < 0.3:
            return _slot(reservation.record, event)
        return spend(reservation, event)

    return spent


def in_place(folder: RunFolder, name: str, put: Callable[[Path], object]) -> None:
    """A file that is seen before it is whole."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"{")
    time.sleep(0.1)
    put(path)


def _stay(folder: RunFolder) -> None:
    """Nothing is swept, and something new is left."""
    (folder / f"draft-{time.monotonic_ns()}.part").touch()


PLANTS = {
    "spends that are not written": (
        "train",
        (Reservation, "spend", forgetful(Reservation.spend)),
    ),
    "files that are written in place": (
        "synthesize dp-merf",
        (RunFolder, "write_with", in_place),
    ),
    "SIGTERM that nobody hears": ("report", (privet.cli, "sigterm_as_ctrl_c", nullcontext)),
    "drafts that stay": ("synthesize dp-merf", (RunFolder, "_sweep", _stay)),
}


def main() -> None:
    """All of them; fails if one is not found."""
    make_ready()
    jobs = {job.name: job for job in JOBS}
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        typical = warmed(
            folder, [jobs[each] for each in {command for command, _ in PLANTS.values()}]
        )
        for number, (plant, (command, fault)) in enumerate(PLANTS.items(), 1):
            found[plant] = 0
            for each in range(100 * number, 100 * number + JOBS_EACH):
                place, draw = jobs[command].place(folder, each), random.Random(each)
                with planted(*fault):
                    found[plant] += len(storm(jobs[command], place, typical, draw)["violations"])
            print(plant, found[plant], flush=True)
    write(
        RESULTS / "fault_plants.json", {"name": "fault_plants", "found": found, "machine": facts()}
    )
    if not all(found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
