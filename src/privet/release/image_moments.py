"""Each image's mean and second moment over its positions, in whichever form is the shorter.

An image of many positions is written out: S = mean_t z_t z_tᵀ is formed once, so that the norm that
is clipped is the norm of the very numbers that are summed. One of few positions stays as it is:
‖triu(z zᵀ)‖² = (‖z‖⁴ + Σ z_j⁴) / 2 is its norm, and weighted sums are matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from privet.hedge import at_least_single
from privet.release.triangles import halved

_LONGER = 4  # times its positions S may take: one product in single precision is worth it
_CHUNK = 2**18  # numbers that several passes go over: they stay in a processor's cache


@dataclass(frozen=True, eq=False)
class Squashed:
    """z = tanh(x Mᵀ) at each position, formed where it is needed and no earlier.

    Args:
        x: features before the projection, (N, C) or (N, positions, C).
        matrix: M, (D, C).
    """

    x: Tensor
    matrix: Tensor

    def formed(self) -> Tensor:
        """Compute the features z."""
        return F.linear(self.x, self.matrix).tanh_()


class LazyFeatures(Mapping[str, Tensor]):
    """Named features that are formed when they are asked for; moments can do without.

    Args:
        made_of: what each feature is formed from, by name.
    """

    def __init__(self, made_of: Mapping[str, Squashed]) -> None:
        self.made_of = made_of
        self._formed: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._formed:
            self._formed[name] = self.made_of[name].formed()
        return self._formed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.made_of)

    def __len__(self) -> int:
        return len(self.made_of)


class ImageMoments(Protocol):
    """Moments over positions of N images with D features each."""

    @property
    def mean(self) -> Tensor:
        """The mean over positions: (N, D)."""

    def second_squares(self) -> Tensor:
        """‖triu(S)‖² of each image, in double precision."""

    def second_dots(self, matrices: Tensor, kinds: Tensor) -> Tensor:
        """⟨triu(S), triu(M)⟩ with the matrix M of the image's kind, in double precision."""

    def second_sums(self, kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
        """Σ weight · S by kind, as precise as weights are: (kinds, D, D)."""


def image_moments(z: Tensor | Squashed, *, second: bool) -> WrittenOut | AsPositions:
    """Moments of features (N, D) or (N, positions, D).

    `second` says whether second moments are needed, too.
    """
    if second and isinstance(z, Squashed) and _worth_writing(z.x, len(z.matrix)):
        return WrittenOut.of(_OfSquashed.apply(z.x, z.matrix))  # type: ignore[no-untyped-call]
    features = at_least_single(z.formed() if isinstance(z, Squashed) else z)
    if second and _worth_writing(features, features.shape[-1]):
        return WrittenOut.of(_OfFeatures.apply(features))  # type: ignore[no-untyped-call]
    return AsPositions(features)


def _worth_writing(z: Tensor, size: int) -> bool:
    single = z.dtype in (torch.float32, torch.float64)
    return single and z.dim() == 3 and _LONGER * z.shape[1] >= size


def gathered(tiles: Sequence[WrittenOut | AsPositions]) -> WrittenOut | AsPositions:
    """Put tiles of images together; large second moments are not copied."""
    written = [tile for tile in tiles if isinstance(tile, WrittenOut)]
    if written:
        seconds = tuple(second for tile in written for second in tile.seconds)
        return WrittenOut(torch.cat([tile.mean for tile in written]), seconds)
    return AsPositions(torch.cat([tile.z for tile in tiles if isinstance(tile, AsPositions)]))


def onto_kinds(kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
    """A matrix (kinds, N) that, times rows (N, D), gives their weighted sums by kind."""
    numbers = torch.arange(len(kinds), device=kinds.device)
    return weights.new_zeros(num_kinds, len(kinds)).index_put((kinds, numbers), weights)


def weighed(weights: Tensor, rows: Tensor) -> Tensor:
    """Weights (kinds, N) times rows (N, D), in the precision of the weights."""
    if weights.dtype == rows.dtype:
        return weights @ rows
    return torch.cat([weights @ some.to(weights.dtype) for some in _columns(rows)], 1)


def squared_lengths(rows: Tensor) -> Tensor:
    """The squared length of each row of (N, D), in double precision."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for some in _columns(rows):
        total = total + some.double().square().sum(1)
    return total


def _columns(rows: Tensor) -> Sequence[Tensor]:
    """Split rows into blocks of columns that stay in the cache in double precision."""
    return torch.split(rows, max(1, _CHUNK // max(1, len(rows))), 1)


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """Moments of images, computed and kept in full.

    Args:
        mean: the means, (N, D).
        seconds: the second moments, (n, D, D) for consecutive tiles of images, N in all.
    """

    mean: Tensor
    seconds: tuple[Tensor, ...]

    @classmethod
    def of(cls, found: tuple[Tensor, Tensor]) -> WrittenOut:
        """The moments of one tile of images."""
        mean, second = found
        return cls(mean, (second,))

    def second_squares(self) -> Tensor:
        """‖triu(S)‖² of each image.

        Rows are summed in their own precision, good to 1e-6 at their length, the rest in double.
        """
        rows = torch.cat([tile.square().sum(2) for tile in self.seconds])
        diagonals = torch.cat([tile.diagonal(dim1=1, dim2=2) for tile in self.seconds])
        return (rows.double().sum(1) + diagonals.double().square().sum(1)) / 2

    def second_dots(self, matrices: Tensor, kinds: Tensor) -> Tensor:
        """⟨triu(S), triu(M)⟩ with the matrix M of the image's kind: one product for all kinds."""
        columns = halved(matrices).flatten(1).T
        dots = torch.cat([tile.flatten(1).double() @ columns for tile in self.seconds])
        return dots.gather(1, kinds[:, None])[:, 0]

    def second_sums(self, kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
        """Σ weight · S by kind, by a thin product for each tile over the kinds that are in it."""
        size = self.mean.shape[1]
        weights = weights.to(torch.promote_types(self.mean.dtype, weights.dtype))
        total = weights.new_zeros(num_kinds, size * size)
        lengths = [len(tile) for tile in self.seconds]
        tiles = zip(
            self.seconds, torch.split(kinds, lengths), torch.split(weights, lengths), strict=True
        )
        for tile, own, some in tiles:
            rows = tile.flatten(1).to(some.dtype)
            if num_kinds <= len(tile):
                total.addmm_(onto_kinds(own, num_kinds, some), rows)
            else:
                present, own = torch.unique(own, return_inverse=True)
                total.index_add_(0, present, onto_kinds(own, len(present), some) @ rows)
        sums = total.reshape(num_kinds, size, size)
        # Symmetric but for rounding: now it is, its gradient is, and it has not grown longer.
        return (sums + sums.mT) / 2


@dataclass(frozen=True, eq=False)
class AsPositions:
    """Features of images whose moments are computed when they are asked for.

    Args:
        z: the features, (N, D) or (N, positions, D).
    """

    z: Tensor

    @cached_property
    def mean(self) -> Tensor:
        """The mean over positions: the features themselves where there is one position."""
        return self.z if self.z.dim() == 2 else self.z.mean(1)

    def second_squares(self) -> Tensor:
        """‖triu(S)‖² of each image, through products between positions."""
        if self.z.dim() == 2:
            squares = self.z.double().square()
            return (squares.sum(1).square() + squares.square().sum(1)) / 2
        products = torch.bmm(self.z, self.z.mT)
        diagonal = self.z.square().sum(1)
        squared = products.double().square().sum((1, 2)) + diagonal.double().square().sum(1)
        return squared / (2 * self.z.shape[1] ** 2)

    def second_dots(self, matrices: Tensor, kinds: Tensor) -> Tensor:
        """mean_t z_tᵀ M z_t with M half of the matrix, its diagonal whole."""
        matrices = halved(matrices)
        rows = self._positions.double()
        found = rows.new_zeros(len(rows))
        for kind in range(len(matrices)):
            own = (kinds == kind).nonzero().flatten()
            some = rows[own]
            found = found.index_add(0, own, ((some @ matrices[kind]) * some).sum(2).mean(1))
        return found

    def second_sums(self, kinds: Tensor, num_kinds: int, weights: Tensor) -> Tensor:
        """Σ weight · S by kind, batched where all kinds have equally many images."""
        rows = self._positions.to(torch.promote_types(self.z.dtype, weights.dtype))
        order = torch.argsort(kinds, stable=True)
        rows, weights = rows[order], weights.to(rows.dtype)[order] / rows.shape[1]
        weighted = rows * weights[:, None, None]
        counts = torch.bincount(kinds, minlength=num_kinds)
        size = rows.shape[2]
        if bool((counts == counts[0]).all()):
            shape = num_kinds, len(rows) // num_kinds * rows.shape[1], size
            return torch.bmm(rows.reshape(shape).mT, weighted.reshape(shape))
        lengths = counts.tolist()
        pairs = zip(torch.split(rows, lengths), torch.split(weighted, lengths), strict=True)
        return torch.stack([a.reshape(-1, size).T @ b.reshape(-1, size) for a, b in pairs])

    @property
    def _positions(self) -> Tensor:
        return self.z if self.z.dim() == 3 else self.z[:, None]


class _OfFeatures(torch.autograd.Function):
    """mean_t z_t and S = mean_t z_t z_tᵀ: one product forward, one back, nothing kept but z.

    What is made of S must have a symmetric gradient, as all of `WrittenOut` has.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(z)
        return z.mean(1), torch.bmm(z.mT, z).div_(z.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        [z] = ctx.saved_tensors
        slope, constant = _by_features(gradients, z.shape[1])
        return torch.bmm(z, slope).add_(constant)


class _OfSquashed(torch.autograd.Function):
    """mean_t z_t and S = mean_t z_t z_tᵀ for z = tanh(x Mᵀ), a few images at a time.

    The gradient goes to x alone.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
        mean = x.new_empty(len(x), len(matrix))
        second = x.new_empty(len(x), len(matrix), len(matrix))
        kept = []
        for some in _chunks(x, len(matrix)):
            z = F.linear(x[some], matrix).tanh_()
            torch.mean(z, 1, out=mean[some])
            torch.bmm(z.mT, z, out=second[some])
            if ctx.needs_input_grad[0]:
                kept.append(z)
        ctx.save_for_backward(matrix, *kept)
        return mean, second.div_(x.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        matrix, *kept = ctx.saved_tensors
        count, positions = len(gradients[0]), kept[0].shape[1]
        slope, constant = _by_features(gradients, positions)
        found = matrix.new_empty(count, positions, matrix.shape[1])
        start = 0
        for z in kept:
            some = slice(start, start := start + len(z))
            by_z = torch.bmm(z, slope[some]).add_(constant[some])
            torch.ops.aten.tanh_backward.grad_input(by_z, z, grad_input=by_z)
            torch.mm(by_z.flatten(0, 1), matrix, out=found[some].flatten(0, 1))
        return found, None


def _by_features(gradients: tuple[Tensor, ...], positions: int) -> tuple[Tensor, Tensor]:
    """The A and b of the gradient z A + b with respect to features z."""
    by_mean, by_second = gradients
    return by_second * (2 / positions), (by_mean / positions)[:, None]


def _chunks(x: Tensor, size: int) -> list[slice]:
    step = max(1, _CHUNK // (x.shape[1] * size))
    return [slice(start, start + step) for start in range(0, len(x), step)]
