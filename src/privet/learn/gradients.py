"""Three kinds of gradient that must never be taken for one another, and vectors in named blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Blocks = dict[str, Tensor]
"""A vector over all trainable parameters, by their names."""


@dataclass(frozen=True)
class PublicGradient:
    """A mean gradient of public data at weights that are already private. Free to use."""

    blocks: Blocks


@dataclass(frozen=True)
class PerUnitGradients:
    """One gradient per private unit, in the first dimension of every block. Stays in an engine."""

    blocks: Blocks


@dataclass(frozen=True)
class PrivateGradient:
    """What equation 1 calls g: the noised sum over a constant, around its origin. Free to use."""

    blocks: Blocks


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a model that require a gradient, each once, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def copied(weights: Mapping[str, Tensor]) -> Blocks:
    """Detached copies of weights, by name."""
    return {name: value.detach().clone() for name, value in weights.items()}


def combined(
    function: Callable[..., Tensor], first: Mapping[str, Tensor], *others: Mapping[str, Tensor]
) -> Blocks:
    """Apply a function, name by name, to the blocks of several vectors."""
    return {
        name: function(value, *(each[name] for each in others)) for name, value in first.items()
    }


def squared_norm(values: Iterable[Tensor]) -> float:
    """The squared Euclidean norm over all tensors together, in double precision."""
    norms = (torch.linalg.vector_norm(value, dtype=torch.float64) for value in values)
    return math.fsum(float(norm) ** 2 for norm in norms)


def norm(blocks: Mapping[str, Tensor]) -> float:
    """The Euclidean norm over all blocks together."""
    return math.sqrt(squared_norm(blocks.values()))


def dot(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    """The inner product over all blocks together."""
    return math.fsum(
        float(torch.dot(value.flatten().double(), second[name].flatten().double()))
        for name, value in first.items()
    )


@contextmanager
def at_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Give a model other values for its trainable parameters, inside a `with` block."""
    parameters = trainable(model)
    before = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = before[name]
