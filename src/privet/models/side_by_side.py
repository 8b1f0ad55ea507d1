"""Several encoders that look at the same images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from privet.errors import ConfigError


class SideBySide(nn.Module):
    """Several encoders whose features are concatenated; names of layers begin with `networks.0`."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if not networks:
            raise ConfigError("There is no encoder: give one or more.")
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        """The concatenated features of images (N, C, H, W)."""
        return torch.cat([network(images).flatten(1) for network in self.networks], 1)


def joined(encoders: nn.Module | Sequence[nn.Module]) -> nn.Module:
    """Return a single encoder as it is, and put several side by side."""
    if isinstance(encoders, nn.Module):
        return encoders
    return encoders[0] if len(encoders) == 1 else SideBySide(encoders)


def branches(encoder: nn.Module) -> dict[str, nn.Module]:
    """The encoders that stand side by side, by the prefix of the names of their layers."""
    if not isinstance(encoder, SideBySide):
        return {"": encoder}
    return {f"networks.{number}.": network for number, network in enumerate(encoder.networks)}
