"""How often a classifier is right, over all and by class: privacy costs small classes most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privet.errors import DataError

_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How often a classifier is right.

    Args:
        overall: the share of right answers over all examples.
        by_class: the share for each class; `None` for a class without examples.
        count: the number of examples that it was measured on.
    """

    overall: float
    by_class: tuple[float | None, ...]
    count: int

    @property
    def worst_class(self) -> float:
        """The accuracy of the class that is recognised least often."""
        return min(share for share in self.by_class if share is not None)

    @property
    def worst(self) -> int:
        """The number of the class that is recognised least often; the first of several."""
        return self.by_class.index(self.worst_class)

    def to_json(self) -> dict[str, Any]:
        """The accuracy as plain JSON values."""
        return {
            "accuracy": self.overall,
            "worst_class": self.worst_class,
            "by_class": list(self.by_class),
            "count": self.count,
        }


def accuracy(predicted: Tensor, targets: Tensor, num_classes: int) -> Accuracy:
    """Compare predicted class numbers with the true ones, overall and by class."""
    if len(targets) == 0:
        raise DataError("There are no examples to measure accuracy on: give some.")
    right = predicted == targets
    shares = []
    for number in range(num_classes):
        own = right[targets == number]
        shares.append(float(own.double().mean()) if len(own) else None)
    return Accuracy(
        overall=float(right.double().mean()), by_class=tuple(shares), count=len(targets)
    )


def predictions(logits_of: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The most likely class of every input, in batches."""
    return logits(logits_of, inputs).argmax(1)


def logits(logits_of: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The logits of every input, computed in batches."""
    with torch.no_grad():
        return torch.cat([logits_of(batch).cpu() for batch in torch.split(inputs, _BATCH)])
