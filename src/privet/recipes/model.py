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
"""Of one row: of an image, or of a vector."""

_MOST_WIDTH, _MOST_DEPTH = 2**20, 1000


class Model(Protocol):
    """What is trained."""

    @property
    def takes(self) -> tuple[str, ...]:
        """What rows it can learn from, by their nouns."""

    @property
    def sees_inputs(self) -> bool:
        """Whether the network itself reads rows as they are stored, not features of them."""

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Of what the network reads."""

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """What learns, with its weights as they are before training."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What was learned elsewhere, for the certificate."""

    def encoder(self) -> nn.Module | None:
        """From images (N, C, H, W) to what the network sees; none if it sees them itself."""

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """The same network with any weights, to load trained ones into."""


class Plain(ABC):
    """For models that see rows as they are, and need nothing but their settings to be made."""

    takes: tuple[str, ...] = ("images",)
    sees_inputs = True
    treated_as_public: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_sizes(self)

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """As it is."""
        return shape

    def encoder(self) -> nn.Module | None:
        """None."""
        return None

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Made anew."""
        return self.network(shape, num_classes)

    @abstractmethod
    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Every model has its own."""


def check_sizes(model: Any) -> None:
    """Refuse widths, depths and such that no network has."""
    for each in fields(model):
        value = getattr(model, each.name)
        most = _MOST_DEPTH if each.name == "depth" else _MOST_WIDTH
        for size in value if isinstance(value, tuple) else (value,):
            if type(size) is int and each.name != "version" and not 1 <= size <= most:
                raise ConfigError(f"The model's {each.name} is {size}: give 1 to {most:,}.")
