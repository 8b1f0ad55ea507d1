"""What an audit found: a claim, a lower bound on what it truly costs, and whether they agree."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privet import __version__
from privet.audit.gauge import NoiseFound
from privet.errors import ConfigError, PrivacyError
from privet.privacy import Guarantee
from privet.privacy.budget import decimals, round_down

SCHEMA = "privet.audit/1"
FALSE_ALARM = 1e-6
"""How likely an audit calls a guarantee broken that holds, at most."""
NO_COST = "an audit makes its own data, so it reads no private row and spends nothing"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one audit found.

    Args:
        subject: what was audited.
        claim: the guarantee that it promises.
        route: how the bound was found.
        evidence: how many runs or canaries, and guesses, in words.
        confidence: the confidence with which the bound holds.
        bound: the audited lower bound on ε at the claim's δ.
        alarm: a weaker lower bound, wrong with a probability of at most FALSE_ALARM.
        alarm_claim: what the same plan promises at the alarm's δ, which the alarm is held against.
        others: other bounds of the same confidence, by route.
        noise: the noise that a gauge found; `None` where there was no gauge.
    """

    subject: str
    claim: Guarantee
    route: str
    evidence: str
    confidence: float
    bound: float
    alarm: float
    alarm_claim: Guarantee
    others: dict[str, float]
    noise: NoiseFound | None = None

    @property
    def broken(self) -> bool:
        """Whether what was seen rules the claim out, but for a false alarm."""
        quiet = self.noise is not None and self.noise.missing(FALSE_ALARM)
        return quiet or self.alarm > self.alarm_claim.epsilon

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        if self.noise is not None and self.noise.missing(FALSE_ALARM):
            return f"the guarantee is broken: {self.noise} (false alarm: {FALSE_ALARM:g})"
        if self.broken:
            return (
                f"the guarantee is broken: ε is above {_shown(self.alarm)} at "
                f"δ = {self.alarm_claim.delta:g} (false alarm: {FALSE_ALARM:g})"
            )
        if self.bound > self.claim.epsilon:
            return "PASS, but the bound lies above the claim: repeat it with more runs"
        return "PASS"

    def in_words(self) -> dict[str, object]:
        """The finding as names and values, for a person."""
        return {
            "audited": self.subject,
            "claimed": self.claim,
            "lower bound": f"ε ≥ {_shown(self.bound)} at δ = {self.claim.delta:g} "
            f"({self.share:.0%} of the claim)",
            "confidence": f"{self.confidence:.4g}, by {self.route}",
            "evidence": self.evidence,
            **({} if self.noise is None else {"noise": self.noise.in_words(FALSE_ALARM)}),
            "verdict": self.verdict,
        }

    @property
    def share(self) -> float:
        """The bound as a share of the claimed ε."""
        return self.bound / self.claim.epsilon

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        return {
            "subject": self.subject,
            **self.claim.to_json(),
            "lower_bound": _finite(self.bound),
            "confidence": self.confidence,
            "route": self.route,
            "other_lower_bounds": {name: _finite(each) for name, each in self.others.items()},
            "alarm_lower_bound": _finite(self.alarm),
            "alarm_delta": self.alarm_claim.delta,
            "alarm_epsilon": self.alarm_claim.epsilon,
            "evidence": self.evidence,
            "noise": None if self.noise is None else asdict(self.noise),
            "broken": self.broken,
            "verdict": self.verdict,
        }


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings as plain JSON values, with the version of their layout."""
    return {
        "schema": SCHEMA,
        "broken": any(each.broken for each in findings),
        "private_rows": NO_COST,
        "false_alarm": FALSE_ALARM,
        "privet_version": __version__,
        "findings": [each.to_json() for each in findings],
    }


def dumps(findings: Sequence[Finding]) -> str:
    """All findings as the text of a JSON file."""
    return json.dumps(as_json(findings), indent=2, ensure_ascii=False) + "\n"


def require_whole(findings: Sequence[Finding]) -> None:
    """Refuse to go on where a guarantee is broken.

    Raises:
        PrivacyError: if a guarantee is broken; it names the worst.
    """
    broken = [each for each in findings if each.broken]
    if broken:
        worst = max(broken, key=lambda each: each.alarm / each.claim.epsilon)
        verdict = worst.verdict[0].upper() + worst.verdict[1:]
        raise PrivacyError(
            f"{verdict}, where {worst.subject} promises {worst.claim}: do not use it on private "
            "data."
        )


def check_confidence(confidence: float) -> None:
    """Refuse a confidence below 1/2, or too near to 1 for an alarm."""
    if not 0.5 <= confidence <= 1 - FALSE_ALARM:
        raise ConfigError(
            f"The confidence of a bound lies between 0.5 and 1 − {FALSE_ALARM:g}, not at "
            f"{confidence:g}."
        )


def _shown(value: float) -> str:
    return decimals(round_down(value)) if math.isfinite(value) else "any number"


def _finite(value: float) -> float:
    return min(value, 1e9)
