"""Claim: noise for 10,000 Poisson steps is found in seconds; PLD needs less of it than RDP.

Seconds for `noise_multiplier` with emptied caches, by rate, ε, accountant and relation; and the
noise of one-shot releases at δ = 1e-5 (the setting of SPS, Table 11) by both accountants.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import machine
from privet.privacy import (
    PLD,
    RDP,
    Accountant,
    Budget,
    GaussianRelease,
    Plan,
    PoissonSteps,
    Relation,
    accountants,
    noise_multiplier,
    renyi,
)

STEPS, DELTA = 10_000, 1e-5
RATES, EPSILONS = (0.001, 0.01, 0.1), (1.0, 8.0)
RELEASE_EPSILONS, RELEASES = (1.0, 2.0, 4.0, 8.0), (1, 2, 3, 4, 5)
ACCOUNTANTS: tuple[Accountant, ...] = (PLD(), RDP())


def steps_at(rate: float) -> Callable[[float], Plan]:
    """The plan of all steps, given its noise."""
    return lambda sigma: Plan.of(
        PoissonSteps(sampling_rate=rate, noise_multiplier=sigma, steps=STEPS)
    )


def releases_at(count: int) -> Callable[[float], Plan]:
    """The plan of some releases, given its noise."""
    return lambda sigma: Plan.of(GaussianRelease(noise_multiplier=sigma, releases=count))


def forget() -> None:
    """Empty every cache that an earlier row of the table may have filled."""
    accountants._pld_epsilon.cache_clear()
    accountants._rdp_epsilon.cache_clear()
    renyi.replace_one_curve.cache_clear()


def steps_row(
    rate: float, epsilon: float, relation: Relation, accountant: Accountant
) -> dict[str, Any]:
    """One calibration, from nothing."""
    forget()
    start = time.perf_counter()
    budget = Budget(epsilon=epsilon, delta=DELTA)
    sigma = noise_multiplier(steps_at(rate), budget, relation, accountant)
    return {
        "sampling_rate": rate,
        "epsilon": epsilon,
        "relation": relation.value,
        "accountant": accountant.name,
        "noise_multiplier": sigma,
        "seconds": time.perf_counter() - start,
    }


def release_row(epsilon: float, releases: int) -> dict[str, Any]:
    """The noise of one-shot releases, by both accountants."""
    budget, plan_at = Budget(epsilon=epsilon, delta=DELTA), releases_at(releases)
    pld, rdp = (noise_multiplier(plan_at, budget, Relation.ADD_REMOVE, a) for a in ACCOUNTANTS)
    return {
        "epsilon": epsilon,
        "releases": releases,
        "rdp": rdp,
        "pld": pld,
        "percent_less": 100 * (1 - pld / rdp),
    }


def measure() -> dict[str, Any]:
    """Both tables. The import of dp_accounting is paid before the first row."""
    release_table = [release_row(e, r) for e in RELEASE_EPSILONS for r in RELEASES]
    noise_multiplier(steps_at(0.5), Budget(epsilon=100.0, delta=DELTA), Relation.ADD_REMOVE, PLD())
    step_table = [
        steps_row(rate, epsilon, relation, accountant)
        for accountant in ACCOUNTANTS
        for relation in Relation
        for rate in RATES
        for epsilon in EPSILONS
    ]
    return {
        "steps": STEPS,
        "delta": DELTA,
        "slowest_seconds": max(row["seconds"] for row in step_table),
        "poisson_steps": step_table,
        "one_shot_releases": release_table,
    }


def main() -> None:
    """Measure and keep."""
    options = machine.arguments(__doc__ or "")
    results = measure()

    def text() -> str:
        lines = ["accountant  relation     rate   ε  σ         seconds"]
        lines += [
            f"{row['accountant']:<11} {row['relation']:<12} {row['sampling_rate']:<6g} "
            f"{row['epsilon']:g}  {row['noise_multiplier']:<9.4f} {row['seconds']:.2f}"
            for row in results["poisson_steps"]
        ]
        lines += ["", "ε  releases  rdp      pld      percent less"]
        lines += [
            f"{row['epsilon']:g}  {row['releases']:<8}  {row['rdp']:<8.4f} {row['pld']:<8.4f} "
            f"{row['percent_less']:.1f}"
            for row in results["one_shot_releases"]
        ]
        return "\n".join(lines)

    machine.keep("calibration", results, text, seeds=[], json_=options.json)


if __name__ == "__main__":
    main()
