"""Per-unit gradients of linear and convolutional layers: sums of outer products over positions.

At position t a layer sees a vector a_t (for a convolution, a patch) and an error e_t comes back;
its gradient is the matrix Σ_t e_t a_tᵀ. Written out it has o·d numbers per unit. Its norm alone
follows from products of pairs of positions, Σ_ts (a_t·a_s)(e_t·e_s): cheaper for few positions
("ghost norms", Li et al. 2021), and weighted sums from one matrix product with weighted errors
("book-keeping", Bu et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from privet.learn.calls import Call
from privet.learn.gradients import Blocks, PerUnitGradients
from privet.learn.layers import Rule, guarded, guarded_around, squared_length, underflow
from privet.learn.positions import TILE_BYTES, Positions, pair_products, positions_of
from privet.learn.standardisation import Standardisation
from privet.models import StandardisedConv2d


@final
class MatrixRule(Rule[nn.Linear | nn.Conv2d]):
    """The rule of a weight that acts as a matrix, with or without bias and standardisation."""

    def __init__(
        self, layer: nn.Linear | nn.Conv2d, names: Mapping[str, str], num_views: int
    ) -> None:
        super().__init__(layer, names, num_views)
        self._shape = len(layer.weight), layer.weight[0].numel()
        self._has_matrix = bool({"weight", "gain"} & set(names))

    def per_unit(self, calls: Sequence[Call], num_units: int) -> PerUnitGradients:
        """Write out every unit's gradient, by batched matrix products that fit the cache."""
        found = self._biases(calls, num_units)
        if not self._has_matrix:
            return PerUnitGradients(found)
        standard = self._standardisation()
        seen = [positions_of(self.layer, call, self.num_views) for call in calls]
        total = self.layer.weight.new_zeros(num_units, *self._shape)
        gains = total.new_zeros(num_units, self._shape[0])
        for units in _tiles(seen, num_units):
            tile = total[units]
            for positions in seen:
                for inputs, errors in positions.pieces(units):
                    tile.baddbmm_(errors, inputs)
            if standard is not None:
                gains[units] = standard.pull_back_(tile)
        return PerUnitGradients(found | self._named({"weight": total.flatten(1), "gain": gains}))

    def squared_norms(self, calls: Sequence[Call], origin: Blocks | None = None) -> Tensor | None:
        """Squared norms through pairs of positions, where these are fewer than coordinates."""
        seen = [positions_of(self.layer, call, self.num_views) for call in calls]
        rows, columns = self._shape
        positions = sum(each.per_unit for each in seen)
        if not seen or "weight" not in self.names:
            return None
        if positions * (rows + columns) >= rows * columns:
            return None
        standard = self._standardisation()
        if standard is not None and not standard.knows_norms(calls):
            return None
        num_units = len(calls[0].inputs) // self.num_views
        total = calls[0].inputs.new_zeros(num_units, dtype=torch.float64)
        centre = None if origin is None else self._centre(origin, standard)
        for units in _tiles(seen, num_units):
            total[units] = self._of_pairs(seen, units, standard, centre)
        for name, biases in self._biases(calls, num_units).items():
            moved = biases if origin is None else biases - origin[name]
            total += moved.square().sum(1, dtype=torch.float64)
        return total

    def weighted_sum(self, calls: Sequence[Call], weights: Tensor) -> Blocks:
        """Σ weight · gradient, as one matrix product over all units and positions."""
        weights = weights.to(self.layer.weight.dtype)
        first, *others = [positions_of(self.layer, call, self.num_views) for call in calls]
        matrix = first.weighted(weights)[None]
        for positions in others:
            matrix += positions.weighted(weights)
        standard = self._standardisation()
        gains = matrix[..., 0] if standard is None else standard.pull_back_(matrix)
        biases = {name: weights @ rows for name, rows in self._biases(calls, len(weights)).items()}
        found = self._named({"weight": matrix[0].flatten(), "gain": gains[0]})
        return {name: self.natural(name, row) for name, row in (found | biases).items()}

    def arranged(self, name: str, block: Tensor) -> Tensor:
        """A parameter's values, flat, with the channels of a patch last."""
        return block.movedim(1, -1).flatten() if block.dim() == 4 else block.flatten()

    def natural(self, name: str, row: Tensor) -> Tensor:
        """A flat row in the shape and order of its parameter: the inverse of `arranged`."""
        if name != self.names.get("weight") or not isinstance(self.layer, nn.Conv2d):
            return super().natural(name, row)
        out, channels, *kernel = self.layer.weight.shape
        return row.reshape(out, *kernel, channels).movedim(-1, 1)

    def _centre(self, origin: Blocks, standard: Standardisation | None) -> _Centre:
        """An origin, and the matrix that is to Σ_t e_t a_tᵀ what the origin is to gradients."""
        own = {name: self.arranged(full, origin[full]) for name, full in self.names.items()}
        matrix = own["weight"].reshape(self._shape)
        if standard is not None:
            matrix = standard.adjoint(matrix, own.get("gain"))
        blocks = [own[name] for name in ("weight", "gain") if name in own]
        return _Centre(matrix, squared_length(blocks))

    def _of_pairs(
        self,
        seen: Sequence[Positions],
        units: slice,
        standard: Standardisation | None,
        centre: _Centre | None,
    ) -> Tensor:
        pieces = [piece for positions in seen for piece in positions.pieces(units)]
        inputs = _joined([piece[0] for piece in pieces], 1)
        errors = _joined([piece[1] for piece in pieces], 2)
        weighted = errors if standard is None else errors * standard.stretch[:, None]
        products = torch.bmm(weighted.transpose(1, 2), weighted)
        one = len(seen) == 1
        others = seen[0].products(units, inputs) if one else pair_products(inputs)
        lost = underflow(_diagonal(others), _diagonal(products), self._shape)
        products *= others
        squares = products.sum(2).sum(1, dtype=torch.float64)  # in single precision: rows alone
        lengths = _diagonal(products).clamp(min=0).sqrt()  # |a_t| |e_t|
        if standard is not None:
            outputs = _joined([each.outputs(units) for each in seen], 2)
            squares = squares + standard.correction(inputs, errors, outputs, self.names)
            if "gain" in self.names:  # its gradient is not stretched
                lengths = lengths + inputs.norm(dim=2) * errors.norm(dim=1)
        if centre is None:
            return guarded(squares, lengths, lost)
        along = (inputs @ centre.matrix.T).mul_(errors.transpose(1, 2))
        return guarded_around(
            squares, along.sum((1, 2), dtype=torch.float64), lengths, lost, centre.square
        )

    def _biases(self, calls: Sequence[Call], num_units: int) -> dict[str, Tensor]:
        if "bias" not in self.names:
            return {}
        sums = [
            positions_of(self.layer, call, self.num_views).summed_errors() for call in calls
        ] or [self.layer.weight.new_zeros(num_units, self._shape[0])]
        return {self.names["bias"]: sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)}

    def _named(self, own: dict[str, Tensor]) -> dict[str, Tensor]:
        return {full: own[name] for name, full in self.names.items() if name in own}

    def _standardisation(self) -> Standardisation | None:
        if isinstance(self.layer, StandardisedConv2d):
            weight = self.layer.weight.movedim(1, -1).flatten(1)  # as patches lie
            return Standardisation.of(self.layer, weight)
        return None


@dataclass(frozen=True)
class _Centre:
    """An origin as `MatrixRule._centre` prepares it: a matrix, and the origin's squared norm."""

    matrix: Tensor
    square: float


def _diagonal(products: Tensor) -> Tensor:
    """The squared lengths of positions, among the products of all pairs of them."""
    return products.diagonal(dim1=1, dim2=2)


def _joined(pieces: list[Tensor], dim: int) -> Tensor:
    """Concatenate tensors; a single one is returned without a copy."""
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _tiles(seen: Sequence[Positions], num_units: int) -> list[slice]:
    """Slices of units whose inputs fit the cache together."""
    largest = max([each.bytes_per_unit for each in seen], default=TILE_BYTES)
    size = max(1, TILE_BYTES // max(1, largest))
    return [slice(start, min(start + size, num_units)) for start in range(0, num_units, size)]
