"""The state of a training as tensors, from which another process can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Stateful(Protocol):
    """Something whose state changes from step to step."""

    def state(self) -> dict[str, Tensor]:
        """The state as tensors, by name."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""


class Checkpoint(Protocol):
    """Where a training keeps its state."""

    def kept(self) -> Mapping[str, Tensor] | None:
        """The state that was kept last; `None` if there is none."""

    def passed(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Note that a step is done; `state` is called only if the state is to be kept now."""


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by their names without it."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


def adam_state(adam: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and step counts of an Adam, named by the number of their parameter."""
    return {
        f"{number}/{name}": each
        for number, parameter in _parameters(adam)
        for name, each in adam.state[parameter].items()
    }


def restore_adam(adam: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Put back what `adam_state` returned.

    Tensors are laid out in memory as parameters are, since a fused step relies on that.
    """
    fused = bool(adam.defaults.get("fused"))
    for number, parameter in _parameters(adam):
        for name, each in under(f"{number}/", state).items():
            # A fused step counts where its parameters are, others count on the CPU.
            count = torch.empty_like(each, device=parameter.device if fused else "cpu")
            like = torch.empty_like(parameter) if each.dim() else count
            adam.state[parameter][name] = like.copy_(each)


def _parameters(adam: torch.optim.Optimizer) -> Iterator[tuple[int, Tensor]]:
    return enumerate(each for group in adam.param_groups for each in group["params"])
