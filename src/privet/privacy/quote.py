"""What a plan would cost, or how much noise a target needs, before anything is spent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privet.privacy import events
from privet.privacy.accountants import Accountant, accountant_version
from privet.privacy.budget import Budget, Guarantee, Relation, Unit
from privet.privacy.calibration import noise_multiplier
from privet.privacy.events import Plan


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What an ε refers to: the relation, the unit and the accountant."""

    relation: Relation
    unit: Unit
    accountant: Accountant


@dataclass(frozen=True, kw_only=True)
class Quote:
    """A noise multiplier, the plan it belongs to and the guarantee that results."""

    noise_multiplier: float
    plan: Plan
    guarantee: Guarantee

    def to_json(self) -> dict[str, Any]:
        """The quote as plain JSON values: an ε with everything that belongs to it."""
        return {
            "noise_multiplier": self.noise_multiplier,
            **self.guarantee.to_json(),
            "accountant_version": accountant_version(),
            "events": events.to_json(self.plan.events),
        }


def quote_noise(plan_at: Callable[[float], Plan], budget: Budget, terms: Terms) -> Quote:
    """Quote the least noise that meets a target ε."""
    sigma = noise_multiplier(plan_at, budget, terms.relation, terms.accountant)
    return quote_cost(plan_at, sigma, budget.delta, terms)


def quote_cost(plan_at: Callable[[float], Plan], sigma: float, delta: float, terms: Terms) -> Quote:
    """Quote the ε of a given noise multiplier."""
    plan = plan_at(sigma)
    guarantee = Guarantee(
        epsilon=terms.accountant.epsilon(plan.events, delta, terms.relation),
        delta=delta,
        relation=terms.relation,
        unit=terms.unit,
        accountant=terms.accountant.name,
    )
    return Quote(noise_multiplier=sigma, plan=plan, guarantee=guarantee)
