"""Audited lower bounds on ε lie below the claim, for every method and mechanism.

Each row is one audit at one ε, with noise from the operating system and rows that the audit makes
itself. A row that is there is not done again; `--only` picks some.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import machine
from kept_rows import Kept, do_missing
from privet.audit import (
    Finding,
    MechanismAudit,
    Neighbour,
    ShortTrainingAudit,
    SynthesisAudit,
    Terms,
    TrainingAudit,
    audit_mechanism,
    audit_short_training,
    audit_synthesis,
    audit_training,
    planted,
)
from privet.audit.synthesis import SYSTEMS
from privet.privacy import Budget, Relation
from privet.recipes.presets import METHODS

OUT = machine.RESULTS / "audit_table.json"
EPSILONS, DELTA = (1.0, 2.0, 4.0, 8.0), 1e-5


@dataclass(frozen=True)
class Row:
    """One audit."""

    kind: str
    name: str
    epsilon: float
    audit: Callable[[Terms], Finding]
    plant: float | None = None

    @property
    def key(self) -> dict[str, object]:
        """What tells rows apart."""
        planted_bug = "none" if self.plant is None else f"{self.plant:g} of the noise"
        return {"kind": self.kind, "name": self.name, "epsilon": self.epsilon, "bug": planted_bug}

    @property
    def described(self) -> str:
        """All settings."""
        return repr(self.audit)


def rows() -> Iterator[Row]:
    """Mechanisms first, which are quick to be understood; then bugs, to see that they are found."""
    release = MechanismAudit(runs=3000)
    for epsilon in EPSILONS:
        yield Row("many runs", "Gaussian release", epsilon, partial(audit_mechanism, release))
    for epsilon in EPSILONS:
        step = MechanismAudit(runs=2000, sampling_rate=0.5)
        yield Row("many runs", "Poisson step", epsilon, partial(audit_mechanism, step))
        training = ShortTrainingAudit(runs=1000)
        yield Row("many runs", "short training", epsilon, partial(audit_short_training, training))
    for row in Neighbour:
        other = MechanismAudit(runs=1000, neighbour=row)
        audit = partial(audit_mechanism, other)
        yield Row("many runs", f"Gaussian release, {row.value} row", 4.0, audit)
    for epsilon in EPSILONS:
        for method in METHODS:
            audit = partial(audit_training, TrainingAudit(method=method))
            yield Row("one run", method, epsilon, audit)
        for system in SYSTEMS:
            audit = partial(audit_synthesis, SynthesisAudit(method=system))
            yield Row("one run", system, epsilon, audit)
    for share in (0.5, 0.0):
        few = partial(audit_mechanism, MechanismAudit(runs=400))
        yield Row("many runs", "Gaussian release", 4.0, few, share)
        for method in METHODS:
            audit = partial(audit_training, TrainingAudit(method=method))
            yield Row("one run", method, 4.0, audit, share)
        for system in SYSTEMS:
            audit = partial(audit_synthesis, SynthesisAudit(method=system))
            yield Row("one run", system, 4.0, audit, share)


def run(row: Row) -> Kept:
    """One audit."""
    terms = Terms(
        budget=Budget(epsilon=row.epsilon, delta=DELTA),
        relation=Relation.ADD_REMOVE,
        noise_of=planted(row.plant),
    )
    start = time.process_time()
    found = row.audit(terms).to_json()
    found["claimed"] = found.pop("epsilon")  # to the last digit; the key has it as asked for
    return {**found, "seconds": round(time.process_time() - start, 1), "code": machine.COMMIT}


def main() -> None:
    """Do what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="Rows whose key contains this text.")
    parser.add_argument("--minutes", type=float, default=1e9, help="Start no row after these.")
    parser.add_argument("--stale", action="store_true", help="Rows of other settings once more.")
    parser.add_argument("--list", action="store_true", help="Print what is missing, do nothing.")
    do_missing(OUT, rows(), run, lambda _: {"delta": DELTA}, parser.parse_args())


if __name__ == "__main__":
    main()
