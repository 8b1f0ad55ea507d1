"""From events to ε: two accountants behind one contract.

`PLD` is the default and the tightest: exact for one-shot Gaussian releases, a pessimistic
discretisation of the privacy loss distribution for everything else. `RDP` reproduces the papers,
and alone knows what the best of a random number of trials costs.
Both treat replace-one as twice the sensitivity, once, and leave an allowance for noise on a grid.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from typing import NamedTuple, Protocol

from privet.errors import PrivacyError
from privet.privacy import gaussian
from privet.privacy.allowance import with_allowance
from privet.privacy.budget import Relation, check_delta
from privet.privacy.events import Event, GaussianRelease, PoissonSteps, Selection

# dp_accounting takes most of a second to import; what needs it imports it when called.

DEFAULT_ORDERS = (
    *(1 + x / 10 for x in range(1, 100)),
    *map(float, range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)


class Accountant(Protocol):
    """What computes the cost of events, as an upper bound on ε."""

    @property
    def name(self) -> str:
        """The name that stands in certificates."""

    def epsilon(self, events: Iterable[Event], delta: float, relation: Relation) -> float:
        """An ε at which all events together are (ε, δ)-private."""


@dataclass(frozen=True)
class PLD:
    """Privacy loss distributions; exact where every event is a Gaussian release.

    References:
        Doroshenko et al., Connect the Dots, 2022. Balle and Wang, 2018, for the exact case.
    """

    name = "PLD"

    def epsilon(self, events: Iterable[Event], delta: float, relation: Relation) -> float:
        """The smallest known ε of all events together, approached from above."""
        check_delta(delta)
        events = tuple(events)
        exact = partial(_pld_epsilon, compose(events), relation=relation)
        return with_allowance(events, delta, exact)


@dataclass(frozen=True)
class RDP:
    """Rényi differential privacy at a set of orders.

    References:
        Mironov, Talwar and Zhang, 2019; converted by Canonne et al., 2020, Proposition 12.
    """

    orders: tuple[float, ...] = DEFAULT_ORDERS
    name = "RDP"

    def epsilon(self, events: Iterable[Event], delta: float, relation: Relation) -> float:
        """The smallest ε of all events together over the orders."""
        check_delta(delta)
        events = tuple(events)
        exact = partial(_rdp_epsilon, compose(events), relation=relation, orders=self.orders)
        return with_allowance(events, delta, exact)


def tightest(events: Iterable[Event]) -> Accountant:
    """The tightest accountant that knows all of these events."""
    return RDP() if any(isinstance(each, Selection) for each in events) else PLD()


def accountant_version() -> str:
    """The name and version of the library behind both accountants, for certificates."""
    return f"dp_accounting {version('dp-accounting')}"


class Composition(NamedTuple):
    """Events in canonical form: independent Gaussians add their precisions."""

    gaussian_precision: float
    poisson: tuple[PoissonSteps, ...]
    selections: tuple[Selection, ...] = ()

    @property
    def gaussian_sigma(self) -> float:
        """The noise scale of the one Gaussian release that all Gaussian releases amount to."""
        return 1 / math.sqrt(self.gaussian_precision)


def compose(events: Iterable[Event]) -> Composition:
    """Merge events that an accountant need not tell apart."""
    precision = 0.0
    steps: dict[PoissonSteps, int] = {}
    selections: dict[Selection, int] = {}
    for event in events:
        match event:
            case GaussianRelease() | PoissonSteps(sampling_rate=1.0):
                precision += event.count / event.noise_multiplier**2
            case PoissonSteps():
                steps[event.times(1)] = steps.get(event.times(1), 0) + event.count
            case Selection():
                selections[event.times(1)] = selections.get(event.times(1), 0) + event.count
            case _:
                raise PrivacyError(f"No accountant knows the event {event!r}.")
    return Composition(
        precision,
        tuple(step.times(count) for step, count in steps.items()),
        tuple(each.times(count) for each, count in selections.items()),
    )


@lru_cache(maxsize=4096)
def _pld_epsilon(composition: Composition, delta: float, relation: Relation) -> float:
    if composition.selections:
        raise PrivacyError(
            "Privacy loss distributions do not know the best of several trials: take the RDP "
            "accountant."
        )
    if not composition.poisson:
        if composition.gaussian_precision == 0:
            return 0.0
        return gaussian.epsilon(composition.gaussian_sigma / relation.sensitivity, delta)
    from privet.privacy.loss_distribution import epsilon

    return epsilon(composition, delta, relation)


@lru_cache(maxsize=4096)
def _rdp_epsilon(
    composition: Composition, delta: float, relation: Relation, orders: tuple[float, ...]
) -> float:
    from privet.privacy.renyi import epsilon

    return epsilon(composition, delta, relation, orders)
