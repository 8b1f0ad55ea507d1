"""Our events in the words of dp_accounting."""

from typing import TYPE_CHECKING

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

if TYPE_CHECKING:
    from privet.privacy.accountants import Composition


def translated(composition: "Composition") -> DpEvent:
    """All events as one composed event of dp_accounting."""
    events: list[DpEvent] = []
    if composition.gaussian_precision > 0:
        events.append(GaussianDpEvent(composition.gaussian_sigma))
    for steps in composition.poisson:
        noise = GaussianDpEvent(steps.noise_multiplier)
        step = PoissonSampledDpEvent(steps.sampling_rate, noise)
        events.append(SelfComposedDpEvent(step, steps.steps))
    return ComposedDpEvent(events)
