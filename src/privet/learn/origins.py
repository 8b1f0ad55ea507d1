"""Slot 4 of equation 1: the point around which gradients are clipped.

An origin is any function of public data and of earlier private gradients ("DP-SGDA", Algorithm 1 of
Nasr et al. 2023): it costs nothing, since neither is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from privet.errors import ConfigError
from privet.learn.gradients import Blocks, PrivateGradient, PublicGradient, combined, norm


class Origin(Protocol):
    """The origin o of a step, and what it remembers of earlier private gradients."""

    @property
    def needs_public(self) -> bool:
        """Whether it is made from a public gradient."""

    def origin(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """The origin of this step in scaled coordinates; `None` for 0."""

    def remember(self, memory: Blocks, gradient: PrivateGradient) -> Blocks:
        """The memory after this step; empty at the start of a run."""


@dataclass(frozen=True, kw_only=True)
class NoOrigin:
    """No origin: o = 0."""

    needs_public: bool = field(default=False, init=False)

    def origin(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """`None`: nothing is subtracted."""
        return None

    def remember(self, memory: Blocks, gradient: PrivateGradient) -> Blocks:
        """The memory as it is, since nothing is remembered."""
        return memory


@dataclass(frozen=True, kw_only=True)
class PublicOrigin:
    """The public gradient (DOPE-SGD, Algorithm 2), clipped to λ for imperfect public data (eq. 3).

    Args:
        limit: λ, the longest origin; `None` leaves the public gradient as it is.
    """

    limit: float | None = None
    needs_public: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        _check(self.limit)

    def origin(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """The public gradient, shortened to at most λ: ∇ℓ(w; public) · λ / max(λ, ‖·‖)."""
        assert public is not None
        return _clipped(public.blocks, self.limit)

    def remember(self, memory: Blocks, gradient: PrivateGradient) -> Blocks:
        """The memory as it is, since nothing is remembered."""
        return memory


@dataclass(frozen=True, kw_only=True)
class LastPrivate:
    """A moving average of earlier private gradients, where nothing is public.

    Args:
        decay: the share of the average that stays in each step; 0 keeps the last gradient alone.
        limit: the longest origin; noise makes private gradients long.
    """

    decay: float = 0.0
    limit: float | None = None
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check(self.limit)
        if not 0 <= self.decay < 1:
            raise ConfigError(f"The decay of the origin must lie in [0, 1), not {self.decay:g}.")

    def origin(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """The average of earlier private gradients, limited in length; `None` in the first step."""
        return _clipped(memory, self.limit) if memory else None

    def remember(self, memory: Blocks, gradient: PrivateGradient) -> Blocks:
        """The average after this gradient has joined it."""
        if not memory:
            return dict(gradient.blocks)
        return combined(lambda o, g: o.lerp(g, 1 - self.decay), memory, gradient.blocks)


def _clipped(blocks: Blocks, limit: float | None) -> Blocks:
    if limit is None or (length := norm(blocks)) <= limit:
        return blocks
    return combined(lambda block: block * (limit / length), blocks)


def _check(limit: float | None) -> None:
    if limit is not None and not 0 < limit < math.inf:
        raise ConfigError(f"An origin's limit λ must be above 0, not {limit:g}.")
