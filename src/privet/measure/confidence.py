"""Whether a classifier is as often right as it is sure.

References:
    Guo et al., On Calibration of Modern Neural Networks, 2017, equation 3 (ECE) and Figure 1 (the
    reliability diagram, which bins are for).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from privet.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class ConfidenceBin:
    """Examples of whose class a classifier is about equally sure.

    Args:
        above: the lower end of their confidence, excluded.
        up_to: the upper end, included.
        count: the number of examples.
        confidence: their mean confidence; `None` if there are no examples.
        accuracy: the share of right answers; `None` if there are no examples.
    """

    above: float
    up_to: float
    count: int
    confidence: float | None
    accuracy: float | None

    @property
    def gap(self) -> float:
        """The distance between mean confidence and accuracy; 0 without examples."""
        if self.confidence is None or self.accuracy is None:
            return 0.0
        return abs(self.confidence - self.accuracy)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How well the confidence of a classifier fits its accuracy.

    Args:
        error: ECE, the mean gap between confidence and accuracy over examples, by bins.
        confidence: the mean confidence over all examples.
        count: the number of examples.
        bins: bins of equal width, in rising order.
    """

    error: float
    confidence: float
    count: int
    bins: tuple[ConfidenceBin, ...]

    def to_json(self) -> dict[str, Any]:
        """The calibration as plain JSON values."""
        return asdict(self)


def calibration(probabilities: Tensor, targets: Tensor, bins: int = 15) -> Calibration:
    """Measure calibration, by the confidence in the most likely class.

    Args:
        probabilities: (N, classes).
        targets: class numbers.
        bins: the number of bins, which are equally wide.
    """
    _check(probabilities, targets, bins)
    sure, predicted = probabilities.double().max(1)
    right = (predicted == targets).double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    # Rows sum to 1 but for rounding, so that a confidence may lie a little above the last edge.
    place = torch.bucketize(sure, edges).clamp(1, bins) - 1
    found = tuple(
        _bin(sure[place == number], right[place == number], edges[number : number + 2].tolist())
        for number in range(bins)
    )
    return Calibration(
        error=sum(each.count * each.gap for each in found) / len(targets),
        confidence=float(sure.mean()),
        count=len(targets),
        bins=found,
    )


def _bin(sure: Tensor, right: Tensor, edges: list[float]) -> ConfidenceBin:
    above, up_to = edges
    return ConfidenceBin(
        above=above,
        up_to=up_to,
        count=len(sure),
        confidence=float(sure.mean()) if len(sure) else None,
        accuracy=float(right.mean()) if len(sure) else None,
    )


def _check(probabilities: Tensor, targets: Tensor, bins: int) -> None:
    if bins < 1:
        raise ConfigError(f"There are {bins} bins: give 1 or more.")
    if len(targets) == 0:
        raise DataError("There are no examples to measure calibration on: give some.")
    if probabilities.ndim != 2 or targets.shape != probabilities.shape[:1]:
        raise DataError(
            f"Probabilities of shape {tuple(probabilities.shape)} do not fit targets of shape "
            f"{tuple(targets.shape)}: give a row for each target."
        )
    sums = probabilities.double().sum(1)
    if not ((probabilities >= 0).all() and (sums - 1).abs().max() < 1e-3):
        raise DataError("These are no probabilities: give rows from 0 that sum to 1.")
