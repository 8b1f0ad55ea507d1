"""Moving embeddings and targets, and all tensors inside them, to the device of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from privet.release.embedding import Embedding, Features

Value = TypeVar("Value")


def placed(embedding: Embedding, device: torch.device) -> Embedding:
    """An embedding whose features are computed on a device, wherever images lie."""
    return replace(embedding, features=_There(moved(embedding.features, device), device))


def moved(value: Value, device: torch.device) -> Value:
    """Move tensors, networks (in place), and mappings and dataclasses of them to a device."""
    found: Any = value
    if isinstance(value, Tensor | nn.Module):
        found = value.to(device)
    elif isinstance(value, Mapping):
        found = {name: moved(each, device) for name, each in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        found = replace(value, **{name: moved(each, device) for name, each in parts.items()})
    made: Value = found
    return made


@dataclass(frozen=True, eq=False)
class _There:
    """A feature function that runs on a device."""

    features: Callable[[Tensor], Features]
    device: torch.device

    def __call__(self, images: Tensor) -> Features:
        """Move images to the device and compute their features."""
        return self.features(images.to(self.device))
