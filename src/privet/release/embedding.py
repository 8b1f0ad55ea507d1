"""Equation 2's φ: an image's features in the blocks of its groups, as the hedge wants them.

    φ(x, y) = ⊕_parts  weight · (f(x) − centre_g)  for every group g of the class y

With ten classes and thousands of features that is a long vector, nearly all of it zero. It is never
formed: an image touches its own groups alone, and its moments are the same numbers in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.errors import ConfigError, PrivacyError
from privet.hedge import Blocks, Units
from privet.release.image_moments import (
    AsPositions,
    ImageMoments,
    LazyFeatures,
    Squashed,
    WrittenOut,
    gathered,
    image_moments,
    onto_kinds,
    squared_lengths,
    weighed,
)
from privet.release.parts import Moments, Part, each_class
from privet.release.triangles import unpack

Features = Mapping[str, Tensor]
COUNTS = "counts"
LABELS = "labels"
_ONE = "one"
_ROUNDING = 64 * torch.finfo(torch.float32).eps
_TILE = 64  # images at a time: what a layer makes of them stays in a processor's cache


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding:
    """A vector per image, seen through its norm and its weighted sums.

    Guarantees:
        A unit's vector is the mean of its rows' vectors, and depends on that unit alone. A row
        whose label is not a declared class makes its unit count for zero. Norms are exact up to
        rounding for units of one row, and upper bounds for others (the mean of rows' norms).

    Args:
        features: from images as a data set holds them to named features.
        parts: which moments of them are released, in which groups and at which weight.
        num_classes: how many classes were declared.
        count_weight: the weight of the class counts; 0 leaves them out.
    """

    features: Callable[[Tensor], Features]
    parts: tuple[Part, ...]
    num_classes: int
    count_weight: float
    dtype: torch.dtype = torch.float32
    _kept: WeakKeyDictionary[Units, _Batch] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names) or COUNTS in names:
            raise ConfigError(f"Parts need different names, not {names}.")
        if not self.count_weight >= 0:
            raise ConfigError("The weight of counts must be 0 or more.")
        for part in self.parts:
            if len(part.groups) != self.num_classes:
                raise ConfigError(f"Part {part.name!r} does not know {self.num_classes} classes.")
        self._check_spreads()

    def _check_spreads(self) -> None:
        """Refuse a spread that is not one second moment of the part's features, for it alone."""
        parts = {part.name: part for part in self.parts}
        pairs = [(part, part.spread) for part in self.parts if part.spread is not None]
        if len({name for _, name in pairs}) < len(pairs):
            raise ConfigError("Two parts have the same spread: give each of them its own.")
        for part, name in pairs:
            spread = parts.get(name)
            if (
                spread is None
                or (spread.source, spread.size) != (part.source, part.size)
                or not (spread.groups.shape[1] == 1 and spread.groups.all())
                or not spread.second_weight
                or spread.spread is not None
            ):
                raise ConfigError(
                    f"The spread of part {part.name!r} must be a part with second moments of the "
                    f"same features, in one group of all classes; {name!r} is not."
                )

    @property
    def counts(self) -> Part | None:
        """The part of class counts: the feature 1 in the group of each class; `None` without."""
        if not self.count_weight:
            return None
        groups = each_class(self.num_classes)
        return Part(name=COUNTS, source=_ONE, size=1, groups=groups, mean_weight=self.count_weight)

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """All parts, that of counts included."""
        return self.parts if self.counts is None else (*self.parts, self.counts)

    @property
    def num_coordinates(self) -> int:
        """How many numbers are released."""
        return sum(
            part.num_groups * size for part in self.all_parts for size in part.sizes.values()
        )

    def zeros(self) -> Blocks:
        """A block for each kind of moment of each part: (groups, coordinates)."""
        return {
            f"{part.name}.{kind}": torch.zeros(part.num_groups, size, dtype=self.dtype)
            for part in self.all_parts
            for kind, size in part.sizes.items()
        }

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's vector over all parts."""
        with torch.no_grad():
            batch = self.batch(units["images"], self._labels(units))
            self._kept[units] = batch
            norms = batch.norms()
            # In single precision, a sum over many rows of one user falls behind.
            return units.mean(norms.double()).to(norms.dtype)

    def _labels(self, units: Units) -> Tensor:
        """The labels of rows; all 0 where there are none and one class is declared."""
        if self.num_classes == 1 and LABELS not in units.columns:
            return torch.zeros(units.num_rows, dtype=torch.int64, device=units.offsets.device)
        return units[LABELS]

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · vector, added up by classes first, then by groups."""
        batch = self._kept.pop(units)
        rows = weights if units.single else (weights / units.sizes)[units.owner]
        with torch.no_grad():
            sums, per_class = batch.sums(rows), batch.per_class(rows, self.num_classes)
        blocks = {
            part.name: part.packed(sums[part.name], per_class @ part.groups.to(per_class))
            for part in self.all_parts
        }
        return {
            f"{name}.{kind}": block for name, own in blocks.items() for kind, block in own.items()
        }

    def batch(self, images: Tensor, labels: Tensor) -> _Batch:
        """Embed images with labels once; gradients flow to images that require them."""
        count = ceil(len(images) / _TILE) if labels.device.type == "cpu" else 1
        tiles = [self._tile(some, labels.device) for some in torch.chunk(images, max(1, count))]
        found = {source: gathered([tile[source] for tile in tiles]) for source in tiles[0]}
        labels = labels.long()
        declared = (labels >= 0) & (labels < self.num_classes)
        return _Batch(self.all_parts, found, torch.where(declared, labels, 0), declared)

    def _tile(self, images: Tensor, device: torch.device) -> dict[str, WrittenOut | AsPositions]:
        seen = self.features(images)
        found: dict[str, Tensor | Squashed] = {_ONE: torch.ones(len(images), 1, device=device)}
        found |= seen.made_of if isinstance(seen, LazyFeatures) else seen
        with_second = {part.source for part in self.parts if part.second_weight}
        return {
            source: image_moments(found[source], second=source in with_second)
            for source in dict.fromkeys(part.source for part in self.all_parts)
        }

    def moments(
        self, images: Tensor, labels: Tensor, clip_norm: float | None = None
    ) -> tuple[dict[str, Moments], Tensor]:
        """Moments of public or synthetic images by part and group, and each class's total weight.

        Args:
            images: as the data set holds them, or as the synthesis makes them.
            labels: the class of each image.
            clip_norm: weigh every image as if it was clipped to this norm; `None` does not.
        """
        batch = self.batch(images, labels)
        if not batch.declared.all():
            raise ConfigError(f"Labels must lie between 0 and {self.num_classes - 1}.")
        weights = torch.ones(len(labels), device=labels.device)
        if clip_norm is not None:
            weights = (clip_norm / batch.norms().clamp(min=clip_norm)).to(weights.dtype)
        per_class = batch.per_class(weights, self.num_classes)
        sums, found = batch.sums(weights), {}
        for part in self.parts:
            totals = (per_class @ part.groups.to(per_class))[:, None]
            own = sums[part.name]
            second = None if own.second is None else own.second / totals[..., None]
            mean = own.mean / totals if part.mean_weight else torch.zeros_like(own.mean)
            found[part.name] = Moments(mean, second)
        return self._with_spreads(found, per_class), per_class

    def as_moments(self, blocks: Mapping[str, Tensor], per_class: Tensor) -> dict[str, Moments]:
        """Turn released blocks into moments around zero, given each class's total weight."""
        found = {}
        for part in self.parts:
            own = {kind: blocks[f"{part.name}.{kind}"] for kind in part.weights}
            found[part.name] = part.unpacked(own, per_class @ part.groups.to(per_class))
        return self._with_spreads(found, per_class)

    def _with_spreads(self, found: Mapping[str, Moments], per_class: Tensor) -> dict[str, Moments]:
        """Give each part of means the second moment that another part keeps for it.

        It is corrected as if classes were equally large.
        """
        joined = dict(found)
        for part in self.parts:
            if part.spread is not None:
                mean, second = found[part.name].mean, joined.pop(part.spread).second
                totals = (per_class @ part.groups.to(per_class)).to(mean)
                excess = totals / totals.sum() - 1 / len(totals)
                assert second is not None
                joined[part.name] = Moments(mean, second - mean.T @ (excess[:, None] * mean))
        return joined


def mean_squares(z: Tensor) -> tuple[float, float]:
    """The mean squared norm of the means and of the packed second moments of public features."""
    found = image_moments(z, second=True)
    return float(_mean_squares(found).mean()), float(found.second_squares().mean())


class _Batch:
    """The moments and labels of some images."""

    def __init__(
        self,
        parts: tuple[Part, ...],
        found: Mapping[str, ImageMoments],
        labels: Tensor,
        declared: Tensor,
    ) -> None:
        self.parts, self.found, self.labels, self.declared = parts, found, labels, declared

    def norms(self) -> Tensor:
        """The norm of each image's vector; NaN where its class is not declared."""
        squares = torch.zeros(len(self.labels), dtype=torch.float64, device=self.labels.device)
        precision = torch.float64
        for part in self.parts:
            found = self.found[part.source]
            dtype = found.mean.dtype
            precision = dtype if dtype == torch.float32 else precision
            squares = squares + _squared(part, found, self._kinds(part))
        norms = squares.clamp(min=0).sqrt().to(precision)
        return torch.where(self.declared, norms, torch.nan)

    def per_class(self, weights: Tensor, num_classes: int) -> Tensor:
        """The sum of the weights of each class."""
        return weights.new_zeros(num_classes).index_add(0, self.labels, weights)

    def sums(self, weights: Tensor) -> dict[str, Moments]:
        """Σ weight · f by part and group, without the parts' own weights and centres."""
        found = {}
        for part in self.parts:
            rows, _ = part.kinds
            kinds, own = self._kinds(part), self.found[part.source]
            dtype = torch.promote_types(own.mean.dtype, weights.dtype)  # the hedge's are double
            mean = weighed(onto_kinds(kinds, len(rows), weights.to(dtype)), own.mean)
            second = None
            if "second" in part.weights:
                by_kind = own.second_sums(kinds, len(rows), weights)
                second = torch.einsum("kg,kij->gij", rows.to(by_kind), by_kind)
            found[part.name] = Moments(rows.to(mean).T @ mean, second)
        return found

    def _kinds(self, part: Part) -> Tensor:
        _, kind_of_class = part.kinds
        return kind_of_class.to(self.labels.device)[self.labels]


def _squared(part: Part, found: ImageMoments, kinds: Tensor) -> Tensor:
    """An upper bound on ‖weight · (f − centre)‖² over all groups of each image, in double."""
    if found.mean.shape != (len(kinds), part.size):
        raise PrivacyError(
            f"The features {part.source!r} are {found.mean.shape[1]} numbers, and part "
            f"{part.name!r} has {part.size}."
        )
    rows, _ = part.kinds
    rows = rows.to(kinds.device).double()
    times = rows.sum(1)[kinds]
    total = torch.zeros_like(times)
    for kind, weight in part.weights.items():
        squares = times * (_mean_squares(found) if kind == "mean" else found.second_squares())
        if part.centre is not None:
            centres = part.centres[kind].to(rows)
            joint = rows @ centres  # Σ over a kind's groups
            if kind == "mean":
                dots = (found.mean.double() * joint[kinds]).sum(1)
            else:
                dots = found.second_dots(unpack(joint, part.size), kinds)
            fixed = (rows @ centres.square().sum(1))[kinds]
            rounding = _ROUNDING * (squares + 2 * dots.abs() + fixed)
            squares = (squares - 2 * dots + fixed).clamp(min=0) + rounding
        total = total + weight**2 * squares
    return total


def _mean_squares(found: ImageMoments) -> Tensor:
    return squared_lengths(found.mean)
