"""Equation 2's φ: an image's features in the blocks of its groups, as the hedge wants them.

    φ(x, y) = ⊕_parts  weight · (f(x) − centre_g)  for every group g of the class y

With ten classes and thousands of features that is a long vector, nearly all of it zero. It is never
formed: an image touches its own groups alone, second moments z zᵀ have the norm
‖triu(z zᵀ)‖² = (‖z‖⁴ + Σ z_j⁴) / 2, and their weighted sums are matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.hedge import Blocks, Units, at_least_single
from privet.release.parts import Moments, Part, each_class
from privet.release.triangles import packed_dot, unpack

Features = Mapping[str, Tensor]
COUNTS = "counts"
_ONE = "one"
_ROUNDING = 64 * torch.finfo(torch.float32).eps


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding:
    """A vector per image, seen through its norm and its weighted sums.

    Guarantees:
        A unit's vector is the mean of its rows' vectors, and depends on that unit alone. A row
        whose label is not a declared class makes its unit count for zero. Norms are exact up to
        rounding for units of one row, and upper bounds for others (the mean of rows' norms).

    Args:
        features: from images as a data set holds them to named features.
        parts: what becomes of them.
        num_classes: declared, so known without looking.
        count_weight: of the count coordinates, one for each class; 0 leaves them out.
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

    @property
    def counts(self) -> Part | None:
        """Counts are a part like any other: the feature 1 in the group of each class."""
        if not self.count_weight:
            return None
        groups = each_class(self.num_classes)
        return Part(name=COUNTS, source=_ONE, size=1, groups=groups, mean_weight=self.count_weight)

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """Counts among them."""
        return self.parts if self.counts is None else (*self.parts, self.counts)

    def zeros(self) -> Blocks:
        """A block for each kind of moment of each part: (groups, coordinates)."""
        return {
            f"{part.name}.{kind}": torch.zeros(part.num_groups, size, dtype=self.dtype)
            for part in self.all_parts
            for kind, size in part.sizes.items()
        }

    def norms(self, units: Units) -> Tensor:
        """Over all parts."""
        with torch.no_grad():
            batch = self.batch(units["images"], units["labels"])
            self._kept[units] = batch
            return units.mean(batch.norms())

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """By classes first, then by groups."""
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
        """Images and labels, looked at once; gradients flow where images want them."""
        labels = labels.long()
        found = {name: at_least_single(each) for name, each in self.features(images).items()}
        found[_ONE] = torch.ones(len(labels), 1, device=labels.device)
        declared = (labels >= 0) & (labels < self.num_classes)
        return _Batch(self.all_parts, found, torch.where(declared, labels, 0), declared)

    def moments(
        self, images: Tensor, labels: Tensor, clip_norm: float | None = None
    ) -> tuple[dict[str, Moments], Tensor]:
        """Of images that are public or synthetic: means by group, and each class's total weight.

        Args:
            images: as the data set holds them, or as the synthesis makes them.
            labels: a class each.
            clip_norm: weigh every image as if it was clipped, as private ones are.
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
        return found, per_class

    def as_moments(self, blocks: Mapping[str, Tensor], per_class: Tensor) -> dict[str, Moments]:
        """Released blocks over each class's total weight, as moments around zero again."""
        found = {}
        for part in self.parts:
            own = {kind: blocks[f"{part.name}.{kind}"] for kind in part.weights}
            found[part.name] = part.unpacked(own, per_class @ part.groups.to(per_class))
        return found


def mean_squares(z: Tensor) -> tuple[float, float]:
    """Of public features: the mean squared norm of a mean, and of a packed second moment."""
    return float(_mean_square(z).mean()), float(_second_square(z).mean())


class _Batch:
    """Some images' features and labels."""

    def __init__(
        self, parts: tuple[Part, ...], features: Features, labels: Tensor, declared: Tensor
    ) -> None:
        self.parts, self.features, self.labels, self.declared = parts, features, labels, declared

    def norms(self) -> Tensor:
        """Of each image's vector; not a number where its class is not declared."""
        squares = torch.zeros(len(self.labels), dtype=torch.float64, device=self.labels.device)
        precision = torch.float64
        for part in self.parts:
            z = self.features[part.source]
            precision = z.dtype if z.dtype == torch.float32 else precision
            squares = squares + _squared(part, z, self.labels)
        norms = squares.clamp(min=0).sqrt().to(precision)
        return torch.where(self.declared, norms, torch.nan)

    def per_class(self, weights: Tensor, num_classes: int) -> Tensor:
        """Σ weight of each class."""
        return weights.new_zeros(num_classes).index_add(0, self.labels, weights)

    def sums(self, weights: Tensor) -> dict[str, Moments]:
        """Σ weight · f by group, without the parts' weights and centres."""
        found = {}
        for part in self.parts:
            rows, kind_of_class = part.kinds
            kinds = kind_of_class.to(self.labels.device)[self.labels]
            z = self.features[part.source]
            z = z.to(torch.promote_types(z.dtype, weights.dtype))  # the hedge's are double
            second = None
            if "second" in part.weights:
                by_kind = _second_by_kind(z, kinds, len(rows), weights.to(z.dtype))
                second = torch.einsum("kg,kij->gij", rows.to(by_kind), by_kind)
            mean = _mean_by_kind(z, kinds, len(rows), weights.to(z.dtype))
            found[part.name] = Moments(rows.to(mean).T @ mean, second)
        return found


def _squared(part: Part, z: Tensor, labels: Tensor) -> Tensor:
    """‖weight · (f − centre)‖² over all groups of each image, in double precision, from above."""
    rows, kind_of_class = part.kinds
    kinds = kind_of_class.to(labels.device)[labels]
    times = rows.sum(1).to(z.device)[kinds].double()
    total = z.new_zeros(len(z), dtype=torch.float64)
    for kind, weight in part.weights.items():
        length = _mean_square(z) if kind == "mean" else _second_square(z)
        squares = times * length
        if part.centre is not None:
            centres = part.centres[kind].to(z.device).double()
            joint = rows.to(centres) @ centres  # Σ over a kind's groups
            dots = _mean_dot(z, joint, kinds) if kind == "mean" else _second_dot(z, joint, kinds)
            fixed = (rows.to(centres) @ centres.square().sum(1))[kinds]
            rounding = _ROUNDING * (squares + 2 * dots.abs() + fixed)
            squares = (squares - 2 * dots + fixed).clamp(min=0) + rounding
        total = total + weight**2 * squares
    return total


def _mean_square(z: Tensor) -> Tensor:
    return _mean(z).double().square().sum(1)


def _second_square(z: Tensor) -> Tensor:
    """‖triu(mean_t z_t z_tᵀ)‖², by way of whichever products are fewer."""
    if z.dim() == 2:
        squares = z.double().square()
        return (squares.sum(1).square() + squares.square().sum(1)) / 2
    positions = z.shape[1]
    if positions < z.shape[2]:
        products = torch.bmm(z, z.transpose(1, 2))
        diagonal = z.square().sum(1)
        squared = products.double().square().sum((1, 2)) + diagonal.double().square().sum(1)
        return squared / (2 * positions**2)
    second = torch.bmm(z.transpose(1, 2), z) / positions
    return packed_dot(second.double(), second.double())


def _mean_dot(z: Tensor, joint: Tensor, kinds: Tensor) -> Tensor:
    return (_mean(z).double() * joint[kinds]).sum(1)


def _second_dot(z: Tensor, joint: Tensor, kinds: Tensor) -> Tensor:
    """⟨triu(mean_t z_t z_tᵀ), c⟩ = mean_t z_tᵀ M z_t with M half of c, its diagonal whole."""
    matrices = unpack(joint, z.shape[-1])
    matrices = (matrices + torch.diag_embed(matrices.diagonal(dim1=1, dim2=2))) / 2
    rows = z.double() if z.dim() == 3 else z.double()[:, None]
    found = rows.new_zeros(len(z))
    for kind in range(len(matrices)):
        own = (kinds == kind).nonzero().flatten()
        some = rows[own]
        found = found.index_add(0, own, ((some @ matrices[kind]) * some).sum(2).mean(1))
    return found


def _mean_by_kind(z: Tensor, kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
    """Σ weight · f by kind."""
    onto = torch.zeros(num_kinds, len(z), dtype=z.dtype, device=z.device)
    onto = onto.index_put((kinds, torch.arange(len(z), device=z.device)), weights)
    return onto @ _mean(z)


def _second_by_kind(z: Tensor, kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
    """Σ weight · mean_t z_t z_tᵀ by kind: batched where kinds are equally many."""
    rows = z if z.dim() == 3 else z[:, None]
    order = torch.argsort(kinds, stable=True)
    rows, weights = rows[order], weights[order] / rows.shape[1]
    weighted = rows * weights[:, None, None]
    counts = torch.bincount(kinds, minlength=num_kinds)
    size = z.shape[-1]
    if bool((counts == counts[0]).all()):
        first, second = rows.reshape(num_kinds, -1, size), weighted.reshape(num_kinds, -1, size)
        return torch.bmm(first.transpose(1, 2), second)
    parts = zip(
        torch.split(rows, counts.tolist()), torch.split(weighted, counts.tolist()), strict=True
    )
    return torch.stack([a.reshape(-1, size).T @ b.reshape(-1, size) for a, b in parts])


def _mean(z: Tensor) -> Tensor:
    return z if z.dim() == 2 else z.mean(1)
