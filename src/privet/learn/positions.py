"""A layer's call as the positions where its matrix was applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from privet.learn.calls import Call

TILE_BYTES = 8 << 20  # of inputs at a time, so that they stay in the cache


class Positions(Protocol):
    """Inputs a_t of a layer and errors e_t that came back to it, by unit and view."""

    per_unit: int
    bytes_per_unit: int

    def pieces(self, units: slice) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs (units, positions, d) and errors (units, o, positions), some views at a time."""

    def products(self, units: slice, inputs: Tensor) -> Tensor:
        """a_t·a_s for all pairs of positions of these units, whose inputs are given."""

    def outputs(self, units: slice) -> Tensor:
        """What the layer returned, in the shape and order of the errors."""

    def summed_errors(self) -> Tensor:
        """Σ_t e_t for every unit: the gradient of a bias."""

    def weighted(self, weights: Tensor) -> Tensor:
        """Σ weight · e_t a_tᵀ over all units, as one matrix (o, d)."""


def positions_of(layer: nn.Linear | nn.Conv2d, call: Call, num_views: int) -> Positions:
    """The positions of a call, for a linear or a convolutional layer."""
    call.require_unchanged()
    if isinstance(layer, nn.Conv2d):
        return _Patches(layer, call, num_views)
    return _Inputs(call, num_views)


class _Inputs:
    """Positions of a linear layer: rows and, in sequences, places."""

    def __init__(self, call: Call, num_views: int) -> None:
        assert call.gradient is not None
        width, out = call.inputs.shape[-1], call.gradient.shape[-1]
        num_units = len(call.inputs) // num_views
        call.gradient = call.gradient.contiguous()  # read several times
        self._call = call
        self._inputs = call.inputs.reshape(num_units, -1, width)
        self._errors = call.gradient.reshape(num_units, -1, out)
        self.per_unit = self._inputs.shape[1]
        self.bytes_per_unit = self.per_unit * width * call.inputs.element_size()

    def pieces(self, units: slice) -> Iterator[tuple[Tensor, Tensor]]:
        yield self._inputs[units], self._errors[units].transpose(1, 2)

    def products(self, units: slice, inputs: Tensor) -> Tensor:
        key = "products", units.start, units.stop
        return _once(self._call.shared, key, lambda: pair_products(inputs))

    def outputs(self, units: slice) -> Tensor:
        raise AssertionError("linear layers are not standardised")

    def summed_errors(self) -> Tensor:
        if self._call.summed is None:
            self._call.summed = self._errors.sum(1)
        return self._call.summed

    def weighted(self, weights: Tensor) -> Tensor:
        factors, inputs, errors = weights[:, None, None], self._inputs, self._errors
        if inputs.shape[-1] > errors.shape[-1]:
            return (errors * factors).flatten(0, 1).T @ inputs.flatten(0, 1)
        # Rather the inputs: several layers may have the same ones.
        inputs = _once(self._call.shared, "weighted", lambda: inputs * factors)
        return errors.flatten(0, 1).T @ inputs.flatten(0, 1)


class _Patches:
    """Positions of a convolution: one patch per output pixel, its channels last.

    With channels last a patch's rows are contiguous, and cutting them is several times faster than
    `unfold`.
    """

    def __init__(self, layer: nn.Conv2d, call: Call, num_views: int) -> None:
        assert call.gradient is not None
        self._layer, self._call = layer, call
        self._errors = torch.unflatten(call.gradient.flatten(2), 0, (-1, num_views))
        positions, width = self._errors.shape[-1], layer.weight[0].numel()
        bytes_per_view = positions * width * call.inputs.element_size()
        self._views_at_once = max(1, min(num_views, TILE_BYTES // bytes_per_view))
        self.per_unit = positions * num_views
        self.bytes_per_unit = bytes_per_view * self._views_at_once

    def pieces(self, units: slice) -> Iterator[tuple[Tensor, Tensor]]:
        errors, patches = self._errors[units], self._patches[units]
        for first in range(0, errors.shape[1], self._views_at_once):
            views = slice(first, first + self._views_at_once)
            yield patches[:, views].flatten(4).flatten(1, 3), _positions_last(errors[:, views])

    def products(self, units: slice, inputs: Tensor) -> Tensor:
        return pair_products(inputs)

    def outputs(self, units: slice) -> Tensor:
        assert self._call.outputs is not None
        found = torch.unflatten(self._call.outputs.flatten(2), 0, self._errors.shape[:2])
        return _positions_last(found[units])

    def summed_errors(self) -> Tensor:
        if self._call.summed is None:
            self._call.summed = self._errors.sum((1, 3))
        return self._call.summed

    def weighted(self, weights: Tensor) -> Tensor:
        gradient, layer = self._call.gradient, self._layer
        assert gradient is not None
        per_row = weights.repeat_interleave(self._errors.shape[1])
        total: Tensor = conv2d_weight(  # type: ignore[no-untyped-call]
            self._call.inputs,
            list(layer.weight.shape),
            gradient * per_row[:, None, None, None],
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
        )
        return total.movedim(1, -1).flatten(1)

    @cached_property
    def _patches(self) -> Tensor:
        """All patches, as an overlapping view.

        Shape: (units, views, height, width, kernel height, kernel width, channels).
        """
        layer = self._layer
        assert not isinstance(layer.padding, str)
        (top, left), (down, right) = layer.padding, layer.stride
        (high, wide), (dy, dx) = layer.kernel_size, layer.dilation
        padded = F.pad(self._call.inputs, (left, left, top, top)).movedim(1, -1).contiguous()
        row, y, x, channel = padded.stride()
        assert self._call.gradient is not None
        height, width = self._call.gradient.shape[2:]
        patches = padded.as_strided(
            (len(padded), height, width, high, wide, padded.shape[-1]),
            (row, y * down, x * right, y * dy, x * dx, channel),
        )
        return torch.unflatten(patches, 0, self._errors.shape[:2])


def pair_products(inputs: Tensor) -> Tensor:
    """The products a_t·a_s of all pairs of positions, for inputs (units, positions, d)."""
    return torch.bmm(inputs, inputs.transpose(1, 2))


def _once(kept: dict[Any, Tensor], key: Any, make: Callable[[], Tensor]) -> Tensor:
    if key not in kept:
        kept[key] = make()
    return kept[key]


def _positions_last(errors: Tensor) -> Tensor:
    """Turn errors (units, views, o, positions) into (units, o, views · positions)."""
    return errors[:, 0] if errors.shape[1] == 1 else errors.transpose(1, 2).flatten(2)
