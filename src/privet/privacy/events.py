"""What happens to private rows, as data. Accountants say what it costs.

An event is frozen and serialisable, and carries everything its cost depends on. Noise multipliers
are in units of the clip norm, under every relation: doubling the sensitivity for replace-one is
the accountant's business.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any

from privet.errors import ConfigError
from privet.privacy.trials import Trials

LEAST_NOISE, MOST_NOISE = 1e-6, 1e12
_MOST_CANDIDATES = 64


@dataclass(frozen=True, kw_only=True)
class GaussianRelease:
    """`releases` sums over all units, each unit clipped, Gaussian noise added once to each sum."""

    noise_multiplier: float
    releases: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", _noise_multiplier(self.noise_multiplier))
        object.__setattr__(self, "releases", _count("releases", self.releases))

    @property
    def count(self) -> int:
        """How often the event may be spent."""
        return self.releases

    @property
    def sums(self) -> float:
        """How many sums leave the hedge."""
        return self.releases

    def times(self, count: int) -> "GaussianRelease":
        """The same event with another count."""
        return replace(self, releases=count)

    def __str__(self) -> str:
        return f"{self.releases} × Gaussian release (σ = {self.noise_multiplier:.4g})"


@dataclass(frozen=True, kw_only=True)
class PoissonSteps:
    """`steps` sums over Poisson samples: each unit joins each step independently at one rate."""

    sampling_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.sampling_rate <= 1:
            raise ConfigError(f"The sampling rate must be in (0, 1], not {self.sampling_rate:g}.")
        object.__setattr__(self, "sampling_rate", float(self.sampling_rate))
        object.__setattr__(self, "noise_multiplier", _noise_multiplier(self.noise_multiplier))
        object.__setattr__(self, "steps", _count("steps", self.steps))

    @property
    def count(self) -> int:
        """How often the event may be spent."""
        return self.steps

    @property
    def sums(self) -> float:
        """How many sums leave the hedge."""
        return self.steps

    def times(self, count: int) -> "PoissonSteps":
        """The same event with another count."""
        return replace(self, steps=count)

    def __str__(self) -> str:
        return (
            f"{self.steps:,} × Poisson-subsampled Gaussian step "
            f"(rate {self.sampling_rate:.4g}, σ = {self.noise_multiplier:.4g})"
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """`selections` times the best of a random number of trials, of which nothing else is shown.

    Args:
        candidates: what a trial may do, each once; a trial does all of one of them.
        trials: the law of the number of trials.
        selections: how many times a best trial is chosen.
    """

    candidates: tuple[PoissonSteps, ...]
    trials: Trials
    selections: int = 1

    def __post_init__(self) -> None:
        named = sorted({*self.candidates}, key=_in_order)
        if not 1 <= len(named) <= _MOST_CANDIDATES:
            raise ConfigError(
                f"Trials take 1 to {_MOST_CANDIDATES} different rates and numbers of steps, not "
                f"{len(named)}."
            )
        object.__setattr__(self, "candidates", tuple(named))
        object.__setattr__(self, "selections", _count("selections", self.selections))

    @property
    def count(self) -> int:
        """How often the event may be spent, each time with all its trials."""
        return self.selections

    @property
    def sums(self) -> float:
        """How many sums leave the hedge on average, at most."""
        longest = max(each.steps for each in self.candidates)
        return self.selections * self.trials.expected * longest

    def times(self, count: int) -> "Selection":
        """The same event with another count."""
        return replace(self, selections=count)

    def __str__(self) -> str:
        return (
            f"{self.selections} × best of a random number of trials ({self.trials}), each "
            f"{' or '.join(map(str, self.candidates))}"
        )


Event = GaussianRelease | PoissonSteps | Selection

_KINDS: Mapping[str, type[Event]] = {
    "gaussian-release": GaussianRelease,
    "poisson-steps": PoissonSteps,
    "selection": Selection,
}


@dataclass(frozen=True)
class Plan:
    """Everything a run will do to the private rows, fixed before it starts."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("A plan needs at least one event.")
        if len({event.times(1) for event in self.events}) < len(self.events):
            raise ConfigError(
                "A plan lists each kind of event once: raise its count instead of repeating it."
            )

    @classmethod
    def of(cls, *events: Event) -> "Plan":
        """A plan of these events; those of one kind are counted together."""
        counts: dict[Event, int] = {}
        for event in events:
            counts[event.times(1)] = counts.get(event.times(1), 0) + event.count
        return cls(tuple(event.times(count) for event, count in counts.items()))

    def index(self, event: Event) -> int | None:
        """Where an event stands in the plan, whatever its count; None if it is not planned."""
        kinds = [planned.times(1) for planned in self.events]
        return kinds.index(event.times(1)) if event.times(1) in kinds else None

    def __str__(self) -> str:
        return ", ".join(map(str, self.events))


def to_json(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events as plain JSON values."""
    names = {kind: name for name, kind in _KINDS.items()}
    return [{"kind": names[type(event)], **_plain(event)} for event in events]


def from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Events from plain JSON values; an unknown kind is refused, never skipped."""
    return tuple(_event(dict(value)) for value in values)


def _event(fields: dict[str, Any]) -> Event:
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise ConfigError(f"Unknown privacy event {kind!r}: a newer Privet may know it.")
    try:
        return _selection(**fields) if kind == "selection" else _KINDS[kind](**fields)
    except TypeError as error:
        raise ConfigError(f"A {kind} event has other fields than expected ({error}).") from None


def _plain(event: Event) -> dict[str, Any]:
    if not isinstance(event, Selection):
        return asdict(event)
    return {
        "candidates": [asdict(each) for each in event.candidates],
        "trials": {"law": event.trials.law.value, "mean": event.trials.mean},
        "selections": event.selections,
    }


def _selection(candidates: Any, trials: Any, selections: int) -> Selection:
    steps = tuple(PoissonSteps(**each) for each in candidates)
    return Selection(candidates=steps, trials=Trials(**trials), selections=selections)


def _in_order(steps: PoissonSteps) -> tuple[float, ...]:
    return steps.sampling_rate, steps.steps, steps.noise_multiplier


def _noise_multiplier(value: float) -> float:
    number = float(value)
    if not LEAST_NOISE <= number <= MOST_NOISE:
        raise ConfigError(
            f"The noise multiplier must lie between {LEAST_NOISE:g} and {MOST_NOISE:g}, "
            f"not {number:g}."
        )
    return number


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ConfigError(
            f"The number of {name} must be a whole number of at least 1, not {value}."
        )
    return int(value)
