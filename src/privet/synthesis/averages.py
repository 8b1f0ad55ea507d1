"""Running averages of synthetic moments: a batch has too few images to know its covariances."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.release import Moments

_BATCHES = "batches"


class RunningMoments:
    """Exponential moving averages of moments over batches, with the gradient of the last batch.

    The last batch's share of the average is 1 − decay, and so would be its gradient's: it is
    divided by that share again (Loo et al. 2024). Early batches weigh equally.

    Args:
        decay: the share of the average that stays from one batch to the next; 0 keeps none.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ConfigError(f"decay is {decay:g}; give 0 to below 1.")
        self._decay = decay
        self._batches = 0
        self._kept: dict[str, tuple[Tensor, Tensor | None]] = {}

    def __call__(self, found: Mapping[str, Moments]) -> dict[str, Moments]:
        """Add the moments of one batch and return the averages."""
        self._batches += 1
        share = max(1 - self._decay, 1 / self._batches)
        averages = {}
        for name, new in found.items():
            mean, second = self._kept.get(name, (new.mean.detach(), None))
            mean = _mixed(mean, new.mean, share)
            if new.second is not None:
                second = _mixed(new.second if second is None else second, new.second, share)
            self._kept[name] = mean, second
            averages[name] = Moments(
                _with_gradient(mean, new.mean),
                None
                if new.second is None or second is None
                else _with_gradient(second, new.second),
            )
        return averages

    def state(self) -> dict[str, Tensor]:
        """The averages as tensors, from which `restore` goes on."""
        found = {_BATCHES: torch.tensor(self._batches)}
        for name, (mean, second) in self._kept.items():
            found[f"{name}/mean"] = mean
            if second is not None:
                found[f"{name}/second"] = second
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self._batches = int(state[_BATCHES])
        names = {name.rpartition("/")[0] for name in state if name != _BATCHES}
        self._kept = {name: (state[f"{name}/mean"], state.get(f"{name}/second")) for name in names}


def _mixed(old: Tensor, new: Tensor, share: float) -> Tensor:
    return old.detach().lerp(new.detach(), share)


def _with_gradient(value: Tensor, source: Tensor) -> Tensor:
    """A tensor with the value of one and the gradient of another."""
    return value + (source - source.detach())
