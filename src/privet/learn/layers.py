"""Per-unit gradients of layers whose parameters are few per unit: norms, and tables of vectors.

A rule knows one layer. It can write out each unit's gradient, and where that is dear, some rules
know its norm and weighted sums without it (`matrices`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.learn.calls import Call
from privet.learn.gradients import Blocks, PerUnitGradients

Layer = TypeVar("Layer", bound=nn.Module)


class Rule(ABC, Generic[Layer]):
    """How the gradients of one layer's parameters follow from its recorded calls.

    Args:
        layer: the layer whose calls are recorded.
        names: the model's name for each of the layer's own parameters that is trainable.
        num_views: K; inputs and outputs have K rows per unit, adjacent.
    """

    def __init__(self, layer: Layer, names: Mapping[str, str], num_views: int) -> None:
        self.layer = layer
        self.names = names
        self.num_views = num_views

    @abstractmethod
    def per_unit(self, calls: Sequence[Call], num_units: int) -> PerUnitGradients:
        """Write out every unit's gradient as one flat row, in this rule's arrangement."""

    def squared_norms(self, calls: Sequence[Call], origin: Blocks | None = None) -> Tensor | None:
        """‖g − o‖² of every unit around an origin; `None` where writing gradients out is cheaper.

        It is ‖g‖² − 2 g·o + ‖o‖², and g·o takes no more than a pass through the layer with
        the origin for its weights.
        """
        return None

    def weighted_sum(self, calls: Sequence[Call], weights: Tensor) -> Blocks:
        """Σ weight · gradient, without writing gradients out."""
        raise AssertionError("only asked of rules that know norms")

    def arranged(self, name: str, block: Tensor) -> Tensor:
        """A parameter's values in the order in which this rule writes gradients."""
        return block.flatten()

    def natural(self, name: str, row: Tensor) -> Tensor:
        """A flat row in the shape and order of its parameter: the inverse of `arranged`."""
        parameter: Tensor = self.layer.get_parameter(self._own(name))
        return row.reshape(parameter.shape)

    def _own(self, name: str) -> str:
        return next(own for own, full in self.names.items() if full == name)

    def _units(self, rows: Tensor) -> Tensor:
        """View rows (units · views, …) as (units, views, …)."""
        return torch.unflatten(rows, 0, (-1, self.num_views))


Normalisation = nn.LayerNorm | nn.GroupNorm | nn.BatchNorm1d | nn.BatchNorm2d


@final
class NormRule(Rule[Normalisation]):
    """The rule of a normalisation layer: its scale and shift, one number each per channel."""

    def per_unit(self, calls: Sequence[Call], num_units: int) -> PerUnitGradients:
        """Write out every unit's gradient of scale and shift.

        They are sums over views and positions of error ⊙ normalised input, and of the error.
        """
        found: dict[str, Tensor] = {}
        for call in calls:
            assert call.gradient is not None
            parts = {"bias": call.gradient}
            if "weight" in self.names:
                call.require_unchanged()
                parts["weight"] = call.gradient * self._normalised(call.inputs)
            for own, full in self.names.items():
                rows = self._over_channels(parts[own])
                found[full] = found[full] + rows if full in found else rows
        return PerUnitGradients(found or _nothing(self, num_units))

    def _normalised(self, inputs: Tensor) -> Tensor:
        layer = self.layer
        if isinstance(layer, nn.LayerNorm):
            return F.layer_norm(inputs, layer.normalized_shape, None, None, layer.eps)
        if isinstance(layer, nn.GroupNorm):
            return F.group_norm(inputs, layer.num_groups, None, None, layer.eps)
        return F.batch_norm(
            inputs, layer.running_mean, layer.running_var, training=False, eps=layer.eps
        )

    def _over_channels(self, rows: Tensor) -> Tensor:
        if isinstance(self.layer, nn.LayerNorm):
            width = len(self.layer.normalized_shape)
            return self._units(rows).flatten(-width).flatten(1, -2).sum(1)
        return self._units(rows.flatten(2) if rows.dim() > 2 else rows[..., None]).sum((1, 3))


@final
class EmbeddingRule(Rule[nn.Embedding]):
    """The rule of a table of vectors, of which a unit touches the few rows that it looks up."""

    def per_unit(self, calls: Sequence[Call], num_units: int) -> PerUnitGradients:
        """Write out the whole table for every unit: for few units or small tables."""
        [name] = self.names.values()
        rows, width = self.layer.weight.shape
        numbers, errors = self._flat(calls, num_units)
        first = torch.arange(num_units, device=numbers.device)[:, None] * rows
        table = errors.new_zeros(num_units * rows, width)
        table.index_add_(0, (numbers + first).flatten(), errors.flatten(0, 1))
        return PerUnitGradients({name: table.reshape(num_units, rows * width)})

    def squared_norms(self, calls: Sequence[Call], origin: Blocks | None = None) -> Tensor | None:
        """Squared norms by pairs of positions, without writing tables out.

        They are sums, over pairs of positions that look up the same row, of the products of errors.
        """
        if not calls:
            return None
        [name] = self.names.values()
        numbers, errors = self._flat(calls, len(calls[0].inputs) // self.num_views)
        same = numbers[:, :, None] == numbers[:, None, :]
        products = torch.bmm(errors, errors.transpose(1, 2))
        own = products.diagonal(dim1=1, dim2=2).clamp(min=0)
        lengths, width = own.sqrt(), self.layer.embedding_dim
        # Looking a row up is a product with a vector of length 1.
        lost = underflow(torch.ones_like(own), own, (width, self.layer.num_embeddings))
        squares = (products * same).sum((1, 2), dtype=torch.float64)
        if origin is None:
            return guarded(squares, lengths, lost)
        table = origin[name]
        along = (errors * table[numbers]).sum((1, 2), dtype=torch.float64)
        return guarded_around(squares, along, lengths, lost, squared_length([table]))

    def weighted_sum(self, calls: Sequence[Call], weights: Tensor) -> Blocks:
        """Σ weight · gradient, as weighted errors added to the rows that they belong to."""
        [name] = self.names.values()
        numbers, errors = self._flat(calls, len(weights))
        weighted = errors * weights.to(errors.dtype)[:, None, None]
        table = torch.zeros_like(self.layer.weight, requires_grad=False)
        return {name: table.index_add_(0, numbers.flatten(), weighted.flatten(0, 1))}

    def _flat(self, calls: Sequence[Call], num_units: int) -> tuple[Tensor, Tensor]:
        """Row numbers (units, positions) and errors (units, positions, width) of all calls."""
        width = self.layer.embedding_dim
        if not calls:
            empty = self.layer.weight.new_zeros(num_units, 0, width)
            return empty[..., 0].long(), empty
        numbers, errors = [], []
        for call in calls:
            assert call.gradient is not None
            call.require_unchanged()
            own = self._units(call.inputs).flatten(1)
            error = self._units(call.gradient).reshape(num_units, -1, width)
            if self.layer.padding_idx is not None:
                error = error * (own != self.layer.padding_idx)[..., None]
            numbers.append(own)
            errors.append(error)
        return torch.cat(numbers, 1), torch.cat(errors, 1)


def guarded_around(
    squares: Tensor, along: Tensor, lengths: Tensor, lost: Tensor, square: float
) -> Tensor:
    """‖g − o‖² from ‖g‖², g·o and ‖o‖², raised by what may have been taken (see `guarded`)."""
    return guarded(squares - 2 * along + square, lengths, lost, math.sqrt(square))


def guarded(squares: Tensor, lengths: Tensor, lost: Tensor, beside: float = 0.0) -> Tensor:
    """Squared norms that neither rounding nor underflow can have made too small.

    A sum of products may cancel. Its error is a few roundings of what it would be if nothing
    cancelled, the square of Σ length and of what is beside it, and is added: a norm too large clips
    a little early, one too small would break the guarantee. What `underflow` found is added too.
    """
    rounding = 16 * torch.finfo(lengths.dtype).eps
    longest = lengths.sum(1, dtype=torch.float64) + beside
    return squares.clamp(min=0) + rounding * longest.square() + lost


def underflow(inputs: Tensor, errors: Tensor, shape: tuple[int, int]) -> Tensor:
    """How much underflow may take from Σ_ts (a_t·a_s)(e_t·e_s), whose factors may differ widely.

    What is smaller than `tiny`, the smallest normal number, is cut short or becomes zero. With o
    products and o sums in it, e_t·e_s may be off by 2·o·tiny, which is then multiplied by
    a_t·a_s ≤ |a_t| |a_s|; likewise a_t·a_s, by 2·d·tiny. The last term is for what comes after:
    products of pairs, their sums, those with an origin, and biases. Twice as much is returned, for
    the lengths themselves are rounded.

    Args:
        inputs: |a_t|² of every unit's positions, as they were computed.
        errors: |e_t|² likewise.
        shape: o and d.
    """
    rows, columns = shape
    count, tiny = inputs.shape[1], torch.finfo(errors.dtype).tiny
    longest, largest = (
        each.clamp(min=0).sqrt().sum(1, dtype=torch.float64).square() for each in (inputs, errors)
    )
    beside = (count + rows) * (count + columns)
    return 8 * tiny * (rows * longest + columns * largest + beside)


def squared_length(blocks: Sequence[Tensor]) -> float:
    """The squared Euclidean norm of all blocks together, in double precision."""
    return sum(float(block.square().sum(dtype=torch.float64)) for block in blocks)


def _nothing(rule: NormRule, num_units: int) -> dict[str, Tensor]:
    """Zero gradients, for a layer that was never called."""
    return {
        full: (parameter := rule.layer.get_parameter(own)).new_zeros(num_units, parameter.numel())
        for own, full in rule.names.items()
    }
