"""A network's weights: whether they fit, and how saved ones are put in their place."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.recipes.model import Model, Shape


def require_room(model: Model, shape: Shape, num_classes: int) -> None:
    """Refuse a network whose weights this machine's memory cannot hold, before it is made."""
    with torch.device("meta"):
        found = all_weights(model.outline(shape, num_classes)).values()
    needed = sum(each.nbytes for each in found)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f"The model's weights take {needed:,} bytes and this machine has {there:,}: choose a "
            "smaller --model."
        )


def load_weights(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put saved parameters and buffers in place of a network's own."""
    known = dict(all_weights(network))
    require_weights(known, tensors)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(tensors[name])
    for name, _ in network.named_buffers():
        owner, _, leaf = name.rpartition(".")
        setattr(network.get_submodule(owner), leaf, tensors[name])


def require_weights(known: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Refuse saved tensors with other names, shapes or types than a network's own."""
    layouts = [
        {name: (each.shape, each.dtype) for name, each in found.items()}
        for found in (known, tensors)
    ]
    odd = sorted(known.keys() ^ tensors.keys())
    odd += [name for name in known if layouts[0][name] != layouts[1].get(name)]
    if odd:
        raise ConfigError(f"The saved weights and the model differ in {odd[0]!r}: train it again.")


def all_weights(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, those included that `state_dict` leaves out."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}
