"""What every ε leaves for noise that is drawn on a grid, whether or not it is.

Each sum with such noise has the probabilities of one with Gaussian noise but for a factor, and
outside of events that hardly ever happen (`privet.hedge.grid_noise`, which has the proof). Factors
add up to an ε, and a part of δ is kept for the events. Both are far below the digits that anyone
sees, and are counted all the same.
"""

from collections.abc import Callable, Sequence

from privet.privacy import gaussian
from privet.privacy.events import Event, Selection

PER_SUM = 2.0**-35  # of ε, for each release or step
SHARE_OF_DELTA = 2.0**-20


def with_allowance(
    events: Sequence[Event], delta: float, epsilon: Callable[[float], float]
) -> float:
    """The cost of events whose noise may be drawn on a grid.

    `epsilon` gives their cost with exact Gaussian noise at a δ; part of δ is kept for the grid.
    """
    if not events:
        return epsilon(delta)
    return epsilon(delta * (1 - SHARE_OF_DELTA)) + allowance(events)


def release_sigma(epsilon: float, delta: float) -> float:
    """The noise scale of one release of this cost, in units of its sensitivity."""
    exact = epsilon - PER_SUM
    return gaussian.sigma(exact if exact > 0 else epsilon, delta * (1 - SHARE_OF_DELTA))


def allowance(events: Sequence[Event]) -> float:
    """The ε that is added for noise on a grid; trials have theirs in the cost of a selection."""
    return PER_SUM * sum(event.count for event in events if not isinstance(event, Selection))
