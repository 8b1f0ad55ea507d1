"""Slot 5 of equation 1: what becomes of the weights. Everything here is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch

from privet.errors import ConfigError
from privet.learn.gradients import Blocks, PrivateGradient, PublicGradient, combined

Memory = dict[str, Blocks]


@dataclass(frozen=True)
class Pace:
    """The learning rate of a step, and its place in the run."""

    learning_rate: float
    step: int
    total: int


class Update(Protocol):
    """How new weights follow from the private gradient and, if needed, a public gradient."""

    @property
    def needs_public(self) -> bool:
        """Whether it uses a public gradient."""

    def apply(
        self,
        weights: Blocks,
        gradient: PrivateGradient,
        public: PublicGradient | None,
        memory: Memory,
        pace: Pace,
    ) -> tuple[Blocks, Memory]:
        """The weights and the memory after a step; the memory is empty at the start of a run."""


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Gradient descent: w ← w − η m with m ← momentum · m + g, and decoupled weight decay."""

    momentum: float = 0.0
    weight_decay: float = 0.0
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check_share("momentum", self.momentum)
        _check_decay(self.weight_decay)

    def apply(
        self,
        weights: Blocks,
        gradient: PrivateGradient,
        public: PublicGradient | None,
        memory: Memory,
        pace: Pace,
    ) -> tuple[Blocks, Memory]:
        """Take one step of gradient descent."""
        direction = gradient.blocks
        if self.momentum:
            if memory:
                direction = combined(
                    lambda m, g: self.momentum * m + g, memory["momentum"], direction
                )
            memory = {"momentum": direction}
        return _moved(weights, direction, pace.learning_rate, self.weight_decay), memory


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma & Ba 2015) on private gradients, with decoupled weight decay."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check_share("beta1", self.beta1)
        _check_share("beta2", self.beta2)
        if not 0 < self.epsilon < math.inf:
            raise ConfigError(f"epsilon must be above 0, not {self.epsilon:g}.")
        _check_decay(self.weight_decay)

    def apply(
        self,
        weights: Blocks,
        gradient: PrivateGradient,
        public: PublicGradient | None,
        memory: Memory,
        pace: Pace,
    ) -> tuple[Blocks, Memory]:
        """Take one step of Adam, with bias-corrected moments."""
        g = gradient.blocks
        zeros = combined(torch.zeros_like, g)
        first = combined(lambda m, x: m.lerp(x, 1 - self.beta1), memory.get("first", zeros), g)
        second = combined(
            lambda v, x: v.lerp(x.square(), 1 - self.beta2), memory.get("second", zeros), g
        )
        count = pace.step + 1
        one, two = 1 - self.beta1**count, 1 - self.beta2**count
        direction = combined(
            lambda m, v: (m / one) / ((v / two).sqrt() + self.epsilon), first, second
        )
        moved = _moved(weights, direction, pace.learning_rate, self.weight_decay)
        return moved, {"first": first, "second": second}


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Mirror descent in its first-order form (Amid et al. 2022): α g + (1 − α) · public gradient.

    Args:
        alpha: α at the start.
        schedule: constant; or cosine, by which the public share 1 − α falls to 0 at the end.
        base: the update that takes the mixture as its gradient.
    """

    alpha: float = 0.7
    schedule: Literal["constant", "cosine"] = "cosine"
    base: SGD | Adam = field(default_factory=SGD)
    needs_public: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"The private share α must lie in [0, 1], not {self.alpha:g}.")
        if self.schedule not in ("constant", "cosine"):
            raise ConfigError(f"α is 'constant' or 'cosine', not {self.schedule!r}.")

    def apply(
        self,
        weights: Blocks,
        gradient: PrivateGradient,
        public: PublicGradient | None,
        memory: Memory,
        pace: Pace,
    ) -> tuple[Blocks, Memory]:
        """Mix the private and the public gradient, then let `base` take a step."""
        assert public is not None
        alpha = self.share(pace)
        mixture = combined(lambda g, p: p.lerp(g, alpha), gradient.blocks, public.blocks)
        return self.base.apply(weights, PrivateGradient(mixture), None, memory, pace)

    def share(self, pace: Pace) -> float:
        """The share α of the private gradient in this step."""
        if self.schedule == "constant":
            return self.alpha
        return 1 - (1 - self.alpha) * math.cos(math.pi * pace.step / (2 * pace.total))


def _moved(weights: Blocks, direction: Blocks, rate: float, decay: float) -> Blocks:
    keep = 1 - rate * decay
    return combined(
        lambda w, d: torch.sub(w * keep if decay else w, d, alpha=rate), weights, direction
    )


def _check_share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must lie in [0, 1), not {value:g}.")


def _check_decay(value: float) -> None:
    if not 0 <= value < math.inf:
        raise ConfigError(f"weight_decay must be 0 or more, not {value:g}.")
