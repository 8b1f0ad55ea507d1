"""A fair coin for every canary, and what guesses about the coins say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privet.audit.findings import Finding
from privet.audit.one_run import Coins, Guesses, best_bound
from privet.audit.trials import Terms
from privet.audit.watched import Evidence
from privet.privacy import PLD, Reservation

_ALARM_DELTA = 1e-9
_ROUTE = "guesses about many canaries in one run (binomial tail)"


def tossed(count: int, rng: np.random.Generator) -> Coins:
    """Toss fair and independent coins."""
    return rng.random(count) < 0.5


def one_run_finding(
    subject: str, reservation: Reservation, evidence: Evidence, coins: Coins, terms: Terms
) -> Finding:
    """Turn guesses about coins into a finding: the best bound, and one that is hardly ever wrong.

    At the claimed δ too many exceptions are allowed for that, so the alarm is held against what the
    same plan promises at a smaller one.
    """
    claim = reservation.guarantee
    delta = min(claim.delta, _ALARM_DELTA)
    epsilon = PLD().epsilon(reservation.plan.events, delta, claim.relation)
    error, false_alarm = terms.errors
    bound, guesses = best_bound(evidence.readings, coins, claim.delta, error)
    alarm, _ = best_bound(evidence.readings, coins, delta, false_alarm)
    return Finding(
        subject=terms.named(subject),
        claim=claim,
        route=_ROUTE,
        evidence=_in_words(guesses),
        confidence=terms.confidence,
        bound=bound,
        alarm=alarm,
        alarm_claim=replace(claim, delta=delta, epsilon=epsilon),
        others={},
        noise=evidence.gauge.found,
    )


def _in_words(guesses: Guesses) -> str:
    return (
        f"1 run, {guesses.canaries:,} canaries, {guesses.right:,} of {guesses.made:,} guesses right"
    )
