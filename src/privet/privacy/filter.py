"""When runs may be chosen after seeing earlier results: a Rényi filter at one fixed order.

Within a run the plan is fixed beforehand, so any accountant may compose it. Across runs the next
plan may depend on what the last one showed. Adaptive composition then holds for the sum of Rényi
divergences at an order that was fixed in advance, as long as the sum is kept below a limit.

References:
    Feldman and Zrnic, Individual Privacy Accounting via a Rényi Filter, 2021, Theorem 4.3.
    Lécuyer, Practical Privacy Filters and Odometers with Rényi Differential Privacy, 2021.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from privet.privacy import gaussian
from privet.privacy.accountants import RDP, compose
from privet.privacy.allowance import with_allowance
from privet.privacy.budget import Budget, Relation, within
from privet.privacy.events import Event, GaussianRelease

LARGEST_ORDER = 4096


@dataclass(frozen=True)
class RenyiFilter:
    """Admits events, whenever they were chosen, while their ε at one order is within the budget."""

    budget: Budget
    relation: Relation
    order: int  # fixed before anything is seen

    @classmethod
    def for_budget(cls, budget: Budget, relation: Relation) -> "RenyiFilter":
        """The filter at the whole order that admits the most Gaussian releases; it sees no data."""
        order = max(range(2, LARGEST_ORDER), key=lambda order: _limit(budget, order) / order)
        return cls(budget, relation, order)

    @property
    def name(self) -> str:
        """The name that stands in refusals and certificates."""
        return f"RDP filter at order {self.order}"

    def admits(self, events: Iterable[Event]) -> bool:
        """Whether everything together, chosen adaptively, stays within the budget."""
        return within(self.epsilon(events), self.budget.epsilon)

    def epsilon(self, events: Iterable[Event]) -> float:
        """The ε that the filter counts as spent by these events."""
        events = tuple(events)
        composition = compose(events)
        if not (
            composition.poisson or composition.selections
        ):  # in closed form, without waiting for dp_accounting
            divergence = self.order * composition.gaussian_precision * self.relation.sensitivity**2

            def exact(delta: float) -> float:
                return max(0.0, divergence / 2 + _conversion(delta, self.order)) if events else 0.0

            return with_allowance(events, self.budget.delta, exact)
        return RDP(orders=(float(self.order),)).epsilon(events, self.budget.delta, self.relation)

    def room_for(self, events: Iterable[Event]) -> float:
        """The largest ε of one further Gaussian release, at the budget's δ; 0 if there is none."""
        spent = tuple(events)

        def fits(sigma: float) -> bool:
            return self.admits((*spent, GaussianRelease(noise_multiplier=sigma)))

        low, high = 1e-3, 1e7
        if not fits(high):
            return 0.0
        while high / low > 1 + 1e-6:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return gaussian.epsilon(high / self.relation.sensitivity, self.budget.delta)


def _limit(budget: Budget, order: int) -> float:
    """The Rényi divergence that converts to exactly the budget."""
    return budget.epsilon - _conversion(budget.delta, order)


def _conversion(delta: float, order: int) -> float:
    """What is added to a Rényi divergence to get an ε (Canonne et al., 2020, Proposition 12)."""
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
