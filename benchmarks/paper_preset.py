"""Claim: what the paper preset costs: noise of the CIFAR-10 runs of Table 10, by both accountants.

Table 10 of "Improving private training via in-distribution public data synthesis and
generalization": batch 4,096 of 48,000 private images, clip norm 1, δ = 1e-5, epochs by ε.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import machine
from privet.privacy import PLD, RDP, Budget, Plan, PoissonSteps, Relation, noise_multiplier

BATCH, ROWS, DELTA = 4096, 48_000, 1e-5
EPOCHS = {1.0: 15, 2.0: 30, 3.0: 30, 4.0: 30, 6.0: 20}


def measure() -> list[dict[str, Any]]:
    """One line per ε."""
    rate = BATCH / ROWS
    found = []
    for epsilon, epochs in EPOCHS.items():
        steps = round(epochs / rate)
        plan_at = partial(_plan, rate, steps)
        budget = Budget(epsilon=epsilon, delta=DELTA)
        noise = {
            accountant.name: noise_multiplier(plan_at, budget, Relation.ADD_REMOVE, accountant)
            for accountant in (PLD(), RDP())
        }
        found.append(
            {"epsilon": epsilon, "epochs": epochs, "rate": rate, "steps": steps, "noise": noise}
        )
    return found


def _plan(rate: float, steps: int, sigma: float) -> Plan:
    return Plan.of(PoissonSteps(sampling_rate=rate, noise_multiplier=sigma, steps=steps))


def main() -> None:
    """Compute and keep."""
    options = machine.arguments(__doc__ or "")
    lines = measure()

    def text() -> str:
        return "\n".join(str(line) for line in lines)

    machine.keep("paper_preset", {"lines": lines}, text, seeds=[], json_=options.json)


if __name__ == "__main__":
    main()
