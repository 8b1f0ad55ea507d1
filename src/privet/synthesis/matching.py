"""Distances between a private release and synthetic images: what synthesis minimises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from privet.optim.states import adam_state, restore_adam, under
from privet.release import Embedding, GaussianTarget, Moments
from privet.synthesis.averages import RunningMoments
from privet.synthesis.gaussians import gaussian_kl


class Matching(Protocol):
    """A loss of synthetic images and their labels."""

    def __call__(self, images: Tensor, labels: Tensor, /) -> Tensor:
        """The distance as one number, with a gradient to the images."""


class GaussianMatching:
    """Σ KL(target ‖ synthetic) over parts and groups (SPS, equation 2).

    Args:
        embedding: the embedding that was released.
        targets: Gaussians to match, by part.
        clip_norm: weigh synthetic images as if clipped, like private ones (SPS, Alg. 4).
        weights: the weight of each part's distance, summed over groups; 1 where none is given.
        decay: the decay of the running averages of synthetic moments.
    """

    def __init__(
        self,
        embedding: Embedding,
        targets: Mapping[str, GaussianTarget],
        *,
        clip_norm: float | None,
        weights: Mapping[str, float] | None = None,
        decay: float = 0.8,
    ) -> None:
        self._embedding, self._clip_norm = embedding, clip_norm
        weights = dict.fromkeys(targets, 1.0) | dict(weights or {})
        sizes = {name: _layout(name, target) for name, target in targets.items()}
        self._stacks = [
            _Stack({name: targets[name] for name in targets if sizes[name] == size}, weights)
            for size in sorted(set(sizes.values()))
        ]
        self._averages = RunningMoments(decay)

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """The distance of the running averages, with the gradient of this batch."""
        found, _ = self._embedding.moments(images, labels, self._clip_norm)
        averages = self._averages(found)
        return torch.stack([stack(averages) for stack in self._stacks]).sum()

    def state(self) -> dict[str, Tensor]:
        """The running averages as tensors."""
        return self._averages.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self._averages.restore(state)


def _layout(name: str, target: GaussianTarget) -> tuple[int, str]:
    """A key by which targets are stacked: equal size and a covariance per mean; else alone."""
    groups, size = target.mean.shape
    return size, "" if len(target.covariance) == groups else name


class _Stack:
    """Parts of one size, whose groups are compared together."""

    def __init__(self, targets: Mapping[str, GaussianTarget], weights: Mapping[str, float]) -> None:
        self._names = list(targets)
        self._target = GaussianTarget(
            torch.cat([each.mean for each in targets.values()]),
            torch.cat([each.covariance for each in targets.values()]),
            torch.cat([each.jitter for each in targets.values()]),
        )
        self._weights = torch.cat(
            [torch.full_like(each.jitter, weights[name]) for name, each in targets.items()]
        )

    def __call__(self, found: Mapping[str, Moments]) -> Tensor:
        mean = torch.cat([found[name].mean for name in self._names])
        seconds = [found[name].second for name in self._names]
        second = torch.cat([each for each in seconds if each is not None])
        return (self._weights * gaussian_kl(self._target, Moments(mean, second))).sum()


class MeanMatching:
    """MMD², with Adam's moving average of the gap in place of a batch's own (dos Santos 2019).

    Args:
        embedding: the embedding that was released.
        targets: means to match, by part.
        shares: each class's share of the private data, as released or declared.
        rate: the learning rate of the Adam that moves the average.
    """

    def __init__(
        self, embedding: Embedding, targets: Mapping[str, Moments], shares: Tensor, rate: float
    ) -> None:
        self._embedding, self._targets = embedding, targets
        self._shares = shares[:, None]
        self._gaps = {name: torch.zeros_like(each.mean) for name, each in targets.items()}
        self._adam = torch.optim.Adam(list(self._gaps.values()), lr=rate)

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """⟨average gap, gap⟩, which has the gradient of MMD² once the average is right."""
        found, _ = self._embedding.moments(images, labels)
        gaps = {
            name: self._shares * (target.mean - found[name].mean)
            for name, target in self._targets.items()
        }
        for name, average in self._gaps.items():
            average.grad = average - gaps[name].detach()
        self._adam.step()
        return torch.stack([(self._gaps[name] * gap).sum() for name, gap in gaps.items()]).sum()

    def state(self) -> dict[str, Tensor]:
        """The averages and their Adam's moments, as tensors."""
        found = {f"gap/{name}": each for name, each in self._gaps.items()}
        return found | {f"adam/{name}": each for name, each in adam_state(self._adam).items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        for name, each in self._gaps.items():
            each.copy_(state[f"gap/{name}"])
        restore_adam(self._adam, under("adam/", state))


class InTurn:
    """Several losses, of which each step takes the next: encoders or stages (SPS, Alg. 8)."""

    def __init__(self, losses: Sequence[Matching]) -> None:
        self._losses, self._step = tuple(losses), 0

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss whose turn it is."""
        loss = self._losses[self._step % len(self._losses)]
        self._step += 1
        return loss(images, labels)
