"""Slot 2 of equation 1: weights around which gradients are taken, w + v.

A perturbation sees weights that are already private, and gradients of public data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from privet.errors import ConfigError
from privet.learn.gradients import Blocks, PublicGradient, combined
from privet.optim import asam_direction, random_direction, sam_direction


class Perturbation(Protocol):
    """M distinct directions v; each is used for K/M of the views of an example."""

    @property
    def count(self) -> int:
        """M, the number of distinct directions."""

    @property
    def needs_public(self) -> bool:
        """Whether each direction comes from a public batch of its own."""

    def perturbed(
        self, weights: Blocks, public: Sequence[PublicGradient], generator: torch.Generator
    ) -> tuple[Blocks, ...]:
        """The weights w + v for every direction v."""


@dataclass(frozen=True, kw_only=True)
class Unperturbed:
    """No perturbation: v = 0."""

    count: int = field(default=1, init=False)
    needs_public: bool = field(default=False, init=False)

    def perturbed(
        self, weights: Blocks, public: Sequence[PublicGradient], generator: torch.Generator
    ) -> tuple[Blocks, ...]:
        """The weights themselves, as the only element."""
        return (weights,)


@dataclass(frozen=True, kw_only=True)
class Ascent:
    """Weight multiplicity (Algorithm 1 of "in-distribution public data synthesis").

    v_k = ρ ∇ℓ(w; public_k) / ‖·‖, each from its own public batch.

    Args:
        radius: ρ.
        count: M, the number of distinct perturbations. The paper has one per view; fewer are
            faster, and what their number does to accuracy is in docs/training.md.
        adaptive: scale directions by the weights (ASAM, Kwon et al. 2021).
    """

    radius: float = 0.05
    count: int = 2
    adaptive: bool = False
    needs_public: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        _check(self.radius, self.count)

    def perturbed(
        self, weights: Blocks, public: Sequence[PublicGradient], generator: torch.Generator
    ) -> tuple[Blocks, ...]:
        """The weights moved along each public gradient, by the radius."""
        direction = asam_direction if self.adaptive else sam_direction
        return tuple(
            combined(torch.add, weights, direction(weights, gradient.blocks, self.radius))
            for gradient in public
        )


@dataclass(frozen=True, kw_only=True)
class RandomDirections:
    """Directions without public data, for comparison: uniform on the sphere of radius ρ."""

    radius: float = 0.05
    count: int = 2
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check(self.radius, self.count)

    def perturbed(
        self, weights: Blocks, public: Sequence[PublicGradient], generator: torch.Generator
    ) -> tuple[Blocks, ...]:
        """The weights moved along fresh random directions, by the radius."""
        return tuple(
            combined(torch.add, weights, random_direction(weights, self.radius, generator))
            for _ in range(self.count)
        )


def _check(radius: float, count: int) -> None:
    if not 0 <= radius < math.inf:
        raise ConfigError(f"The radius ρ must be 0 or more, not {radius:g}.")
    if count < 1:
        raise ConfigError(f"There must be at least one perturbation, not {count}.")
