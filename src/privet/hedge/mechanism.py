"""A mechanism owns its clip, its noise, its sampling and its event, so they cannot mismatch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from privet.errors import ConfigError
from privet.privacy import Event, GaussianRelease, PoissonSteps, Relation

_SMALLEST_CLIP, _LARGEST_CLIP = 1e-9, 1e12


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A clipped sum with Gaussian noise, added once.

    Guarantees:
        A neighbouring data set moves the sum by at most `sensitivity(relation)`. The noise has
        scale `noise_scale` in every coordinate. The cost is that of `event`, under any relation.
    """

    clip_norm: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, float(value))
        if not _SMALLEST_CLIP <= self.clip_norm <= _LARGEST_CLIP:
            raise ConfigError(
                f"The clip norm must lie between {_SMALLEST_CLIP:g} and {_LARGEST_CLIP:g}, where "
                f"single precision can be trusted, not {self.clip_norm:g}: scale the vectors."
            )
        _ = self.event  # an event checks the rest

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one such sum counts as in a plan and for accountants."""

    @property
    def noise_scale(self) -> float:
        """The standard deviation of the noise in every coordinate."""
        return self.noise_multiplier * self.clip_norm

    def sensitivity(self, relation: Relation) -> float:
        """How far the sums of neighbouring data sets can lie apart."""
        return relation.sensitivity * self.clip_norm


@final
@dataclass(frozen=True, kw_only=True)
class GaussianSum(Mechanism):
    """A clipped and noised sum over all units."""

    @property
    def event(self) -> Event:
        """One Gaussian release."""
        return GaussianRelease(noise_multiplier=self.noise_multiplier)


@final
@dataclass(frozen=True, kw_only=True)
class PoissonSum(Mechanism):
    """A clipped and noised sum over a sample, which each unit joins independently at one rate.

    An empty sample is a sum like any other: zero, plus noise.
    """

    sampling_rate: float

    @property
    def event(self) -> Event:
        """One Poisson-subsampled step."""
        return PoissonSteps(
            sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier, steps=1
        )
