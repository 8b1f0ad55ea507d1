"""What several networks are made of: checked sizes, group normalisation, a kind of activation."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from privet.errors import ConfigError

Activation = Callable[[], nn.Module]


def check_sizes(**sizes: int) -> None:
    """Refuse a named size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name} is {size}; give 1 or more.")


def group_norm(groups: int, channels: int) -> nn.GroupNorm:
    """Normalise each example by itself, in groups of channels."""
    if groups < 1 or channels % groups:
        raise ConfigError(
            f"groups is {groups}; give a divisor of {channels}, the channels of a layer."
        )
    return nn.GroupNorm(groups, channels)
