"""Slot 3 of equation 1: a diagonal scale s, learned from public gradients alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from privet.errors import ConfigError
from privet.learn.gradients import Blocks, PublicGradient, combined, norm


class Scale(Protocol):
    """The scale s of a step, and what it remembers of public gradients."""

    @property
    def needs_public(self) -> bool:
        """Whether it learns from a public gradient in every step."""

    def learn(self, memory: Blocks, public: PublicGradient | None) -> Blocks:
        """The memory after one more public gradient; empty at the start of a run."""

    def scale(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """The scale of this step; `None` for 1."""


@dataclass(frozen=True, kw_only=True)
class Unscaled:
    """No scale: s = 1."""

    needs_public: bool = field(default=False, init=False)

    def learn(self, memory: Blocks, public: PublicGradient | None) -> Blocks:
        """The memory as it is, since nothing is remembered."""
        return memory

    def scale(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """`None`: gradients are taken as they are."""
        return None


@dataclass(frozen=True, kw_only=True)
class PublicMoments:
    """AdaDPS (Li et al. 2022): s = 1/(√v + damping), v a mean square of public gradients.

    Damping is a share of the root mean square of all coordinates, and s is stretched so that the
    public gradient keeps its norm: clip norm and learning rate then mean what they mean without.

    Args:
        decay: the share of the moving average that stays in each step.
        damping: relative to that root mean square; large values approach s = 1.
    """

    decay: float = 0.9
    damping: float = 0.1
    needs_public: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ConfigError(f"The decay of the scale must lie in [0, 1), not {self.decay:g}.")
        if not self.damping > 0:
            raise ConfigError(f"The damping of the scale must be above 0, not {self.damping:g}.")

    def learn(self, memory: Blocks, public: PublicGradient | None) -> Blocks:
        """The mean square after one more public gradient: decay · v + (1 − decay) · g²."""
        assert public is not None
        squares = combined(torch.square, public.blocks)
        if not memory:
            return squares
        return combined(lambda v, g: torch.lerp(v, g, 1 - self.decay), memory, squares)

    def scale(self, memory: Blocks, public: PublicGradient | None) -> Blocks | None:
        """The damped scale, stretched so that the public gradient keeps its norm."""
        assert public is not None
        size = sum(block.numel() for block in memory.values())
        total = sum(float(block.sum(dtype=torch.float64)) for block in memory.values())
        damping = self.damping * (total / size) ** 0.5
        if damping == 0:
            return None
        raw = combined(lambda v: 1 / (v.sqrt() + damping), memory)
        scaled = norm(combined(torch.mul, raw, public.blocks))
        stretch = norm(public.blocks) / scaled if scaled > 0 else damping
        return combined(lambda s: s * stretch, raw)
