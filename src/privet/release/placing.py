"""Embeddings and targets where a run computes: all that is made of tensors moves together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from privet.release.embedding import Embedding, Features

Value = TypeVar("Value")


def placed(embedding: Embedding, device: torch.device) -> Embedding:
    """Features are computed there, wherever images come from."""
    return replace(embedding, features=_There(moved(embedding.features, device), device))


def moved(value: Value, device: torch.device) -> Value:
    """Tensors, networks, and mappings and dataclasses of them; networks in place."""
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
    """Features on a device."""

    features: Callable[[Tensor], Features]
    device: torch.device

    def __call__(self, images: Tensor) -> Features:
        """Of images from anywhere."""
        return self.features(images.to(self.device))
