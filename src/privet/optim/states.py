"""How far a training is, as tensors that another process can go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Stateful(Protocol):
    """Something that changes from step to step."""

    def state(self) -> dict[str, Tensor]:
        """As tensors."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""


class Checkpoint(Protocol):
    """Where a training keeps how far it is."""

    def kept(self) -> Mapping[str, Tensor] | None:
        """What was kept last, if anything."""

    def passed(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """A step is done; its state is asked for if it shall be kept."""


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without that."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


def adam_state(adam: torch.optim.Optimizer) -> dict[str, Tensor]:
    """By parameters in their order."""
    return {
        f"{number}/{name}": each
        for number, parameter in _parameters(adam)
        for name, each in adam.state[parameter].items()
    }


def restore_adam(adam: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Laid out in memory as parameters are: a fused step takes that for granted."""
    fused = bool(adam.defaults.get("fused"))
    for number, parameter in _parameters(adam):
        for name, each in under(f"{number}/", state).items():
            # A fused step counts where its parameters are, others count on the CPU.
            count = torch.empty_like(each, device=parameter.device if fused else "cpu")
            like = torch.empty_like(parameter) if each.dim() else count
            adam.state[parameter][name] = like.copy_(each)


def _parameters(adam: torch.optim.Optimizer) -> Iterator[tuple[int, Tensor]]:
    return enumerate(each for group in adam.param_groups for each in group["params"])
