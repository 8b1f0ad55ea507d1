"""The parts of an embedding: which features go where, at which weight, around which centre.

An image of class y adds its features to some groups of a part: the group of all images, that of its
class, or every pseudo-class that its class belongs to. A part's matrix `groups` says which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.release.triangles import pack, packed_size, unpack


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and second moments of some features, one of each for every group.

    Args:
        mean: (groups, D).
        second: (groups, D, D); or (1, D, D) of all groups together, each weighing the same; or
            `None` where only means are kept.
    """

    mean: Tensor
    second: Tensor | None = None

    @property
    def covariance(self) -> Tensor:
        """The covariance of each group.

        Where there is one second moment for all groups, one covariance: what they have within them.
        """
        assert self.second is not None
        return self.second - outer_products(self.mean, len(self.second))


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Some features' means, and second moments if they have a weight, in each group.

    Args:
        name: the name of the part, with which its blocks are named.
        source: the name of the features (N, D) or (N, positions, D), averaged over positions.
        size: D, the number of features.
        groups: (classes, groups) of zeros and ones: where an image of each class counts.
        mean_weight: what means are multiplied with; 0 leaves them out.
        second_weight: what second moments are multiplied with; 0 leaves them out.
        centre: subtracted in an image's own groups alone (SPS, Algorithm 6).
        spread: the name of the part with the one second moment of these features, if any.
    """

    name: str
    source: str
    size: int
    groups: Tensor
    mean_weight: float = 1.0
    second_weight: float = 0.0
    centre: Moments | None = None
    spread: str | None = None

    def __post_init__(self) -> None:
        if self.groups.dim() != 2 or not ((self.groups == 0) | (self.groups == 1)).all():
            raise ConfigError(f"The groups of part {self.name!r} must be a matrix of 0 and 1.")
        both = (self.mean_weight, self.second_weight)
        if not all(0 <= weight < math.inf for weight in both) or not self.weights:
            raise ConfigError(
                f"Part {self.name!r} needs finite weights from 0, one of them above it."
            )
        if self.second_weight and self.centre is not None and self.centre.second is None:
            raise ConfigError(f"The centre of part {self.name!r} needs second moments too.")
        if self.spread is not None and (self.second_weight or self.centre is not None):
            raise ConfigError(f"Part {self.name!r} has its spread in another part: no centre.")
        if self.centre is not None:
            self._check_centre(self.centre)

    def _check_centre(self, centre: Moments) -> None:
        """Refuse a centre of another shape than the part's, or one that is not finite.

        It would be spread over coordinates that norms do not count.
        """
        shape = (self.num_groups, self.size)
        wanted = {"mean": (centre.mean, shape), "second": (centre.second, (*shape, self.size))}
        for kind, (found, own) in wanted.items():
            if found is not None and (found.shape != own or not found.isfinite().all()):
                raise ConfigError(
                    f"The centre of part {self.name!r} must have finite {kind} moments of shape "
                    f"{own}, not {tuple(found.shape)}."
                )

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each kind of moment that is released: 'mean', 'second'."""
        weights = {"mean": self.mean_weight, "second": self.second_weight}
        return {kind: weight for kind, weight in weights.items() if weight}

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return self.groups.shape[1]

    @property
    def sizes(self) -> dict[str, int]:
        """Coordinates of each block in one group."""
        sizes = {"mean": self.size, "second": packed_size(self.size)}
        return {kind: sizes[kind] for kind in self.weights}

    @cached_property
    def kinds(self) -> tuple[Tensor, Tensor]:
        """The distinct rows of `groups`, (kinds, groups), and which of them each class has.

        Classes that count in the same groups are of one kind.
        """
        rows, kind = torch.unique(self.groups, dim=0, return_inverse=True)
        return rows, kind

    @cached_property
    def centres(self) -> dict[str, Tensor]:
        """The centre as blocks, packed, without weights: (groups, coordinates)."""
        if self.centre is None:
            return {}
        found = {"mean": self.centre.mean}
        if self.centre.second is not None:
            found["second"] = pack(self.centre.second)
        return {kind: found[kind].detach() for kind in self.weights}

    def packed(self, sums: Moments, totals: Tensor) -> dict[str, Tensor]:
        """Turn sums by group into weighted blocks around the centre.

        `totals` holds the sum of weights of each group.
        """
        found = {"mean": sums.mean}
        if sums.second is not None:
            found["second"] = pack(sums.second)
        for kind, centre in self.centres.items():
            found[kind] = found[kind] - totals.to(found[kind])[:, None] * centre.to(found[kind])
        return {kind: weight * found[kind] for kind, weight in self.weights.items()}

    def unpacked(self, blocks: Mapping[str, Tensor], totals: Tensor) -> Moments:
        """Turn blocks back into moments, over the totals of each group: the inverse of `packed`."""
        found = {
            kind: blocks[kind] / (weight * totals[:, None]) for kind, weight in self.weights.items()
        }
        for kind, centre in self.centres.items():
            found[kind] = found[kind] + centre.to(found[kind])
        second = unpack(found["second"], self.size) if "second" in found else None
        return Moments(found.get("mean", totals.new_zeros(len(totals), self.size)), second)


def with_one_spread(part: Part) -> list[Part]:
    """Split a part: means of each group, and one second moment of all images beside them."""
    spread = f"{part.name}-spread"
    return [
        replace(part, second_weight=0.0, spread=spread),
        replace(part, name=spread, mean_weight=0.0, groups=everyone(len(part.groups))),
    ]


def outer_products(rows: Tensor, count: int) -> Tensor:
    """The outer product x xᵀ of each row, or their mean if `count` is not the number of rows."""
    if count == len(rows):
        return rows[:, :, None] * rows[:, None, :]
    return (rows.T @ rows / len(rows))[None]


def everyone(num_classes: int) -> Tensor:
    """A `groups` matrix with one group of all images."""
    return torch.ones(num_classes, 1)


def each_class(num_classes: int) -> Tensor:
    """A `groups` matrix with one group for each class."""
    return torch.eye(num_classes)
