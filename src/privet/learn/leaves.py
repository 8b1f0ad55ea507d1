"""Ordinary backward passes that standardise weights once for many of them.

Standardised weights are the same for all examples of a step. Here they are leaves of the graph, and
their gradients are turned into those of the weights by a formula, which is cheaper than autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from privet.learn.gradients import trainable
from privet.learn.standardisation import Standardisation
from privet.models import StandardisedConv2d


class Leaves:
    """Standardised weights of a model, computed once for many backward passes."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = tuple(trainable(model).values())
        learned = {id(parameter) for parameter in self._parameters}
        self._layers = [
            (layer, Standardisation.of(layer, layer.weight.flatten(1)), _leaf(layer))
            for layer in model.modules()
            if type(layer) is StandardisedConv2d and {id(layer.weight), id(layer.gain)} & learned
        ]

    def gradients(self, loss: Callable[[], Tensor]) -> tuple[Tensor, ...]:
        """The gradient of a loss for each trainable parameter; call it within `in_place`."""
        leaves = [leaf for _, _, leaf in self._layers]
        with torch.enable_grad():
            # Parameters too: some are no standardised weights, and those may be used elsewhere.
            found = torch.autograd.grad(loss(), [*self._parameters, *leaves], allow_unused=True)
        total: dict[int, Tensor | None] = {}
        total.update(zip(map(id, self._parameters), found, strict=False))
        for (layer, standard, _), gradient in zip(
            self._layers, found[len(self._parameters) :], strict=True
        ):
            if gradient is not None:
                rows = gradient.flatten(1)  # a convolution's own, and no one else's
                gains = standard.pull_back_(rows)
                _add(total, layer.weight, rows.reshape(layer.weight.shape))
                _add(total, layer.gain, gains)
        return tuple(
            torch.zeros_like(parameter) if (value := total[id(parameter)]) is None else value
            for parameter in self._parameters
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model use these standardised weights, inside a `with` block."""
        try:
            for layer, _, leaf in self._layers:
                # Beside the method, not instead of it: the class is not touched.
                layer.__dict__["standardised_weight"] = lambda leaf=leaf: leaf
            yield
        finally:
            for layer, _, _ in self._layers:
                layer.__dict__.pop("standardised_weight", None)


def _leaf(layer: StandardisedConv2d) -> Tensor:
    with torch.no_grad():
        return layer.standardised_weight().detach().requires_grad_()


def _add(total: dict[int, Tensor | None], parameter: Tensor, gradient: Tensor) -> None:
    """Add a gradient to its parameter's total, if that parameter is learned."""
    if id(parameter) in total:
        before = total[id(parameter)]
        total[id(parameter)] = gradient if before is None else before + gradient
