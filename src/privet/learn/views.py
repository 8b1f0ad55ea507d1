"""Slot 1 of equation 1: which views of an example its gradient is averaged over."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from privet.augment import CropFlip, beta, mix_pairs, to_float
from privet.errors import ConfigError
from privet.learn.objective import Examples, is_declared
from privet.public import PublicRows


@dataclass(frozen=True)
class Surroundings:
    """What views may use besides the example itself: the classes, randomness, public images."""

    num_classes: int
    generator: torch.Generator
    public: PublicRows | None = None


class Views(Protocol):
    """A way to make K views of each row, adjacent, in the order of rows.

    Guarantees:
        A view depends on its own row, on public rows and on fresh randomness: two private rows are
        never mixed.
    """

    @property
    def num_views(self) -> int:
        """K, the number of views of each row."""

    @property
    def needs_public(self) -> bool:
        """Whether public images are mixed in."""

    def __call__(self, rows: Examples, around: Surroundings) -> Examples:
        """Make K views of each row; for public rows there is `single`."""

    def single(self, rows: Examples, generator: torch.Generator) -> Examples:
        """Make one view of each row, for rows that are public."""


@dataclass(frozen=True, kw_only=True)
class AsIs:
    """One view of each example: the example itself (Abadi et al. 2016)."""

    num_views: int = field(default=1, init=False)
    needs_public: bool = field(default=False, init=False)

    def __call__(self, rows: Examples, around: Surroundings) -> Examples:
        """The examples as they are; only bytes become numbers."""
        return Examples(_numbers(rows.inputs), rows.targets)

    def single(self, rows: Examples, generator: torch.Generator) -> Examples:
        """The examples as they are; only bytes become numbers."""
        return Examples(_numbers(rows.inputs), rows.targets)


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """K augmentations of each example (augmentation multiplicity, De et al. 2022)."""

    num_views: int = 16
    augment: CropFlip = field(default_factory=CropFlip)
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check_counts(num_views=self.num_views)

    def __call__(self, rows: Examples, around: Surroundings) -> Examples:
        """Make K independent augmentations of every image."""
        inputs = self.augment(_numbers(rows.inputs), self.num_views, around.generator)
        return Examples(inputs, rows.targets.repeat_interleave(self.num_views, 0))

    def single(self, rows: Examples, generator: torch.Generator) -> Examples:
        """Make one augmentation of every image."""
        return Examples(self.augment(_numbers(rows.inputs), 1, generator), rows.targets)


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Augmentations, mixups of them with each other, and mixups of them with public images.

    DP-Mix (Bao et al. 2023). Without public images it is DP-Mix self, with them DP-Mix diff;
    without plain augmentations (`num_base` 0) pure DP-Mix diff. What is averaged before clipping
    does not change the sensitivity.

    Args:
        num_base: the number of plain augmentations.
        num_self: the number of mixups of two augmentations of the example.
        num_diff: the number of mixups of an augmentation of the example with a public image.
        alpha: α of the Beta(α, α) distribution of mixing weights.
        augment: how augmentations are made.
    """

    num_base: int = 16
    num_self: int = 18
    num_diff: int = 0
    alpha: float = 0.2
    augment: CropFlip = field(default_factory=CropFlip)

    def __post_init__(self) -> None:
        _check_counts(num_views=self.num_views)
        if min(self.num_base, self.num_self, self.num_diff) < 0:
            raise ConfigError("Numbers of views are 0 or more.")
        if not 0 < self.alpha < math.inf:
            raise ConfigError(f"alpha is {self.alpha:g}; give a number above 0, such as 0.2.")

    @property
    def num_views(self) -> int:
        """The number of views of each kind, added up."""
        return self.num_base + self.num_self + self.num_diff

    @property
    def needs_public(self) -> bool:
        """Whether public images are mixed in, as in DP-Mix diff."""
        return self.num_diff > 0

    def __call__(self, rows: Examples, around: Surroundings) -> Examples:
        """Make all views of every example, from its own augmentations and public images alone."""
        generator, count = around.generator, len(rows)
        # Mixups are of base views where there are any to choose from.
        sizes = [self.num_base, 0 if self.num_base > 1 else 2 * self.num_self, self.num_diff]
        inputs = self.augment(_numbers(rows.inputs), sum(sizes), generator)
        base, pairs, mixed = torch.split(torch.unflatten(inputs, 0, (count, -1)), sizes, 1)
        if self.num_base > 1:
            pairs = _pick_pairs(base, self.num_self, generator)
        first, second = torch.unflatten(pairs, 1, (2, self.num_self)).unbind(1)
        labels = _probabilities(rows.targets, around.num_classes).to(inputs.dtype)
        parts = [(base, labels[:, None].expand(-1, self.num_base, -1))]
        if self.num_self:
            weight = beta(self.alpha, (count, self.num_self), generator).to(inputs.device)
            own = labels[:, None].expand(-1, self.num_self, -1)
            parts.append(mix_pairs(first, second, own, own, weight))
        if self.num_diff:
            parts.append(self._with_public(mixed, labels, around))
        return Examples(
            torch.cat([part[0] for part in parts], 1).flatten(0, 1),
            torch.cat([part[1] for part in parts], 1).flatten(0, 1),
        )

    def single(self, rows: Examples, generator: torch.Generator) -> Examples:
        """Make one augmentation of every image."""
        return Augmented(num_views=1, augment=self.augment).single(rows, generator)

    def _with_public(
        self, own: Tensor, labels: Tensor, around: Surroundings
    ) -> tuple[Tensor, Tensor]:
        if around.public is None or not len(around.public):
            raise ConfigError("Mixing with public images needs public images: give --public.")
        count = len(own) * self.num_diff
        # With replacement: what one row draws must not depend on how many others there are.
        drawn = torch.randint(len(around.public), (count,), generator=around.generator)
        rows = around.public.select(drawn).to(own.device)
        others = self.augment(_numbers(rows.inputs), 1, around.generator)
        theirs = F.one_hot(rows.targets, around.num_classes).to(own.dtype)
        weight = beta(self.alpha, (len(own), self.num_diff), around.generator).to(own.device)
        return mix_pairs(
            own,
            torch.unflatten(others, 0, (len(own), -1)),
            labels[:, None].expand(-1, self.num_diff, -1),
            torch.unflatten(theirs, 0, (len(own), -1)),
            weight,
        )


def _pick_pairs(base: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` pairs of different base views of each example: all firsts, then all seconds."""
    rows, num_base = base.shape[:2]
    first = torch.randint(num_base, (rows, count), generator=generator)
    step = torch.randint(1, num_base, (rows, count), generator=generator)
    picked = torch.cat([first, (first + step) % num_base], 1).to(base.device)
    return base[torch.arange(rows, device=base.device)[:, None], picked]


def _probabilities(labels: Tensor, num_classes: int) -> Tensor:
    """One-hot rows; NaN where a class is not declared, so that its unit counts for zero."""
    declared = is_declared(labels, num_classes)
    rows = F.one_hot(torch.where(declared, labels, 0), num_classes).float()
    return torch.where(declared[:, None], rows, torch.nan)


def _numbers(inputs: Tensor) -> Tensor:
    """Inputs as floating-point numbers: bytes of images are converted, features stay."""
    return to_float(inputs) if inputs.dtype == torch.uint8 else inputs


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}; every example needs at least one view.")
