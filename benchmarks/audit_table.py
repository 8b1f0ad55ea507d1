"""Audited lower bounds on ε lie below the claim, for every method and mechanism.

Each row is one audit at one ε, with noise from the operating system and rows that the audit makes
itself. A row that is there is not done again; `--only` picks some.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

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
Settings = MechanismAudit | ShortTrainingAudit | TrainingAudit | SynthesisAudit
METHOD_AUDITS: dict[str, Settings] = {
    **{method: TrainingAudit(method=method) for method in METHODS},
    **{method: SynthesisAudit(method=method) for method in SYSTEMS},
}


@dataclass(frozen=True)
class Row:
    """One audit."""

    kind: str
    name: str
    epsilon: float
    settings: Settings
    plant: float | None = None
    secure_noise: bool = False

    @property
    def key(self) -> dict[str, object]:
        """What tells rows apart."""
        planted_bug = "none" if self.plant is None else f"{self.plant:g} of the noise"
        return {"kind": self.kind, "name": self.name, "epsilon": self.epsilon, "bug": planted_bug}

    @property
    def described(self) -> str:
        """All settings."""
        return repr(self.settings)


def rows() -> Iterator[Row]:
    """Mechanisms first; then methods; then bugs, to see that they are found."""
    many, one = "many runs", "one run"
    for epsilon in EPSILONS:
        yield Row(many, "Gaussian release", epsilon, MechanismAudit(runs=3000))
        step = MechanismAudit(runs=2000, sampling_rate=0.5)
        yield Row(many, "Poisson step at rate 0.5", epsilon, step)
        yield Row(many, "4 steps of a linear model", epsilon, ShortTrainingAudit(runs=1000))
    for epsilon in EPSILONS:
        release = MechanismAudit(runs=3000)
        yield Row(many, "Gaussian release, secure noise", epsilon, release, secure_noise=True)
    for epsilon in EPSILONS:
        yield from (Row(one, name, epsilon, each) for name, each in METHOD_AUDITS.items())
    for share in (0.5, 0.0):
        yield Row(many, "Gaussian release", 4.0, MechanismAudit(runs=400), share)
        yield from (Row(one, name, 4.0, each, share) for name, each in METHOD_AUDITS.items())
    for row in Neighbour:
        other = MechanismAudit(runs=1000, neighbour=row)
        yield Row(many, f"Gaussian release, {row.value} row", 4.0, other)


def audited(settings: Settings, terms: Terms) -> Finding:
    """By whoever knows how."""
    match settings:
        case MechanismAudit():
            return audit_mechanism(settings, terms)
        case ShortTrainingAudit():
            return audit_short_training(settings, terms)
        case TrainingAudit():
            return audit_training(settings, terms)
        case SynthesisAudit():
            return audit_synthesis(settings, terms)


def run(row: Row) -> Kept:
    """One audit."""
    terms = Terms(
        budget=Budget(epsilon=row.epsilon, delta=DELTA),
        relation=Relation.ADD_REMOVE,
        noise_of=planted(row.plant),
        secure_noise=row.secure_noise,
    )
    start = time.process_time()
    found = audited(row.settings, terms).to_json()
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
