"""What is differentiated: a model, a loss, views of each example, weights around which it is taken.

One unit's vector is s ⊙ g_i − o with g_i = (1/K) Σ_k ∇ℓ(w + v_k; view_k(x_i)); a user's rows are
averaged. Engines compute its norm and weighted sums in different ways, and agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.data.text import UNPREDICTED
from privet.errors import ConfigError, PrivacyError
from privet.hedge import Units
from privet.learn.gradients import Blocks, copied, trainable


@dataclass(frozen=True)
class Examples:
    """Inputs of a model and what they should give: class numbers, or probabilities of classes."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def split(self, size: int) -> list[Examples]:
        """Parts of that many examples each; the last one holds what is left."""
        parts = zip(torch.split(self.inputs, size), torch.split(self.targets, size), strict=True)
        return [Examples(inputs, targets) for inputs, targets in parts]


class Loss(Protocol):
    """A function from outputs and targets to one loss per input."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each input."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of each output; targets are class numbers or probabilities."""
    return F.cross_entropy(outputs, targets, reduction="none")


IGNORED = UNPREDICTED
"""In the place of a word that is not to be predicted."""


def word_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of each sequence, from logits (N, T, words) and targets (N, T)."""
    losses = F.cross_entropy(
        outputs.transpose(1, 2), targets, reduction="none", ignore_index=IGNORED
    )
    return losses.sum(1) / (targets != IGNORED).sum(1).clamp(min=1)


def is_declared(labels: Tensor, num_classes: int) -> Tensor:
    """Whether each label is one of the declared classes."""
    return (labels >= 0) & (labels < num_classes)


def of_declared(loss: Loss, num_classes: int) -> Loss:
    """Wrap a loss so that its gradient is NaN where a class number is not declared.

    Guarantees:
        A private label outside the declared classes makes its unit count for zero behind the hedge;
        no error names it.
    """

    def of(outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.is_floating_point():  # probabilities: views wrote what is not declared as NaN
            return loss(outputs, targets)
        declared = is_declared(targets, num_classes)
        if targets.ndim > 1:
            declared |= targets == IGNORED
        losses = loss(outputs, torch.where(declared, targets, 0))
        declared = declared.flatten(1).all(1) if targets.ndim > 1 else declared
        # A product, whose gradient is NaN; that of a mere choice between losses would be zero.
        return losses * torch.where(declared, 1.0, torch.nan).to(losses.dtype)

    return of


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Everything besides a unit that its vector depends on: all of it is public, or was released.

    Args:
        model: any module that treats each input by itself.
        loss: one number per view.
        views: a function from units to K views of each row, adjacent, in the order of rows.
        num_views: K.
        weights: w + v for each distinct perturbation v; their number divides K.
        scale: s; `None` for 1.
        origin: o in scaled coordinates; `None` for 0.
    """

    model: nn.Module
    loss: Loss
    views: Callable[[Units], Examples]
    num_views: int
    weights: tuple[Blocks, ...]
    scale: Blocks | None = None
    origin: Blocks | None = None

    def __post_init__(self) -> None:
        if self.num_views < 1:
            raise ConfigError(f"Every example needs at least one view, not {self.num_views}.")
        if not self.weights or self.num_views % len(self.weights):
            raise ConfigError(
                f"{len(self.weights)} weight perturbations must divide {self.num_views} views."
            )
        own = _shapes(self.weights[0])
        for name, blocks in (("scale", self.scale), ("origin", self.origin)):
            if blocks is not None and _shapes(blocks) != own:
                raise PrivacyError(f"The {name} must have the names and shapes of the weights.")

    @classmethod
    def plain(
        cls, model: nn.Module, loss: Loss, views: Callable[[Units], Examples], num_views: int
    ) -> Objective:
        """The objective at the model's own weights, without scale and origin."""
        weights = (copied(trainable(model)),)
        return cls(model=model, loss=loss, views=views, num_views=num_views, weights=weights)

    @property
    def linear(self) -> bool:
        """Whether a unit's vector is its gradient at one set of weights, around any origin."""
        return len(self.weights) == 1 and self.scale is None

    def zeros(self) -> Blocks:
        """A block of zeros for each parameter: the sum over no units."""
        return {name: torch.zeros_like(value) for name, value in self.weights[0].items()}

    def dealt_out(self, views: Examples) -> list[Examples]:
        """Divide each row's views among the weights, in order: one group for each of them."""
        count = len(self.weights)
        if count == 1:
            return [views]
        sizes = (-1, count, self.num_views // count)
        inputs, targets = (
            torch.unflatten(views.inputs, 0, sizes),
            torch.unflatten(views.targets, 0, sizes),
        )
        return [
            Examples(inputs[:, group].flatten(0, 1), targets[:, group].flatten(0, 1))
            for group in range(count)
        ]

    def centred(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Turn gradients g, in the order of the weights, into s ⊙ g − o."""
        if self.scale is not None:
            gradients = torch._foreach_mul(gradients, list(self.scale.values()))
        if self.origin is not None:
            gradients = torch._foreach_sub(gradients, list(self.origin.values()))
        return gradients


def _shapes(blocks: Blocks) -> dict[str, torch.Size]:
    return {name: block.shape for name, block in blocks.items()}
