"""What every model can tell, and what those share that see rows as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, Protocol

from torch import nn

from privet.errors import ConfigError

ImageShape = tuple[int, int, int]
"""Height, width, channels."""
Shape = tuple[int, ...]
"""The shape of one row: of an image, or of a vector."""

_MOST_WIDTH, _MOST_DEPTH = 2**20, 1000


class Model(Protocol):
    """A model that can be trained: which rows it takes, and its network."""

    @property
    def takes(self) -> tuple[str, ...]:
        """The nouns of rows that it can learn from, such as `images`."""

    @property
    def sees_inputs(self) -> bool:
        """Whether the network itself reads rows as they are stored, not features of them."""

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape of what the network reads, for rows of this shape."""

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network that learns, with its weights as they are before training."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public: what was learned elsewhere."""

    def encoder(self) -> nn.Module | None:
        """Make what turns images (N, C, H, W) into the network's inputs; None if nothing does."""

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the same network with any weights, to load trained ones into."""


class Plain(ABC):
    """What models share that see rows as they are, and are made from their settings alone."""

    takes: tuple[str, ...] = ("images",)
    sees_inputs = True
    treated_as_public: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_sizes(self)

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape of a row, since the network reads rows as they are."""
        return shape

    def encoder(self) -> nn.Module | None:
        """None, since the network reads rows as they are."""
        return None

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network anew, to load trained weights into."""
        return self.network(shape, num_classes)

    @abstractmethod
    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network, with its weights as they are before training."""


def check_sizes(model: Any) -> None:
    """Refuse widths, depths and such that no network has."""
    for each in fields(model):
        value = getattr(model, each.name)
        most = _MOST_DEPTH if each.name == "depth" else _MOST_WIDTH
        for size in value if isinstance(value, tuple) else (value,):
            if type(size) is int and each.name != "version" and not 1 <= size <= most:
                raise ConfigError(f"The model's {each.name} is {size}: give 1 to {most:,}.")
