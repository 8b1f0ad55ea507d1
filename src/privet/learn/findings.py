"""What diagnostics find: plain numbers, for plots. Whatever holds them is marked not private."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of quantiles."""


class Finding:
    """Named numbers that a diagnostic found."""

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON values; what is not finite becomes null."""
        assert dataclasses.is_dataclass(self)
        names = [field.name for field in dataclasses.fields(self)]
        return {name: _plain(getattr(self, name)) for name in names}


@final
@dataclass(frozen=True, eq=False)
class Spread(Finding):
    """A mean, and quantiles at `LEVELS`."""

    mean: float
    quantiles: Floats

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """The spread of some numbers; NaN throughout if there are none."""
        if not values.size:
            return cls(math.nan, np.full(len(LEVELS), math.nan))
        return cls(float(values.mean()), np.quantile(values, LEVELS))


@final
@dataclass(frozen=True, eq=False)
class Norms(Finding):
    """Norms of gradients before and after clipping: of each, and of their mean."""

    before: Spread
    after: Spread
    mean_before: float
    mean_after: float


@final
@dataclass(frozen=True, eq=False)
class GradientNorms(Finding):
    """Norms of gradients for each set of rows, one of which is `private`."""

    clip_norm: float
    sets: dict[str, Norms]


@final
@dataclass(frozen=True, eq=False)
class Alignment(Finding):
    """How a step's gradient compares with the mean gradient of all private rows."""

    cosine: float
    dot: float
    step_norm: float
    mean_norm: float


@final
@dataclass(frozen=True, eq=False)
class Magnitudes(Finding):
    """Mean |gradient| of each parameter over units: a histogram over parameters, mean and spread.

    Edges grow by a constant factor; parameters without any gradient are counted apart.
    """

    edges: Floats
    counts: NDArray[np.int64]
    zeros: int
    mean: float
    std: float


@final
@dataclass(frozen=True, eq=False)
class Cloud(Finding):
    """Normalised gradients on a plane, one row each, and how long they were."""

    coordinates: Floats
    norms: Floats


@final
@dataclass(frozen=True, eq=False)
class Clusters(Finding):
    """Gradients of two classes on the plane of their means over private rows.

    The first axis points along the mean gradient of the first class; `cosine` is between both
    means. By set of rows, a cloud for each class.
    """

    classes: tuple[int, int]
    cosine: float
    sets: dict[str, tuple[Cloud, Cloud]]


@final
@dataclass(frozen=True, eq=False)
class Fit(Finding):
    """Mean loss and accuracy on some rows."""

    loss: float
    accuracy: float


@final
@dataclass(frozen=True, eq=False)
class Fits(Finding):
    """Mean loss and accuracy for each set of rows, one of which is `private`."""

    sets: dict[str, Fit]


@final
@dataclass(frozen=True, eq=False)
class Sharpness(Finding):
    """The Hessian of the mean loss of some rows: its largest eigenvalues, and its trace.

    `ratio` is that of the first eigenvalue to the fifth; the trace has a standard error.
    """

    rows: int
    eigenvalues: tuple[float, ...]
    ratio: float
    trace: float
    trace_error: float


@final
@dataclass(frozen=True, eq=False)
class Curvatures(Finding):
    """The sharpness of the loss for each set of rows, one of which is `private`."""

    sets: dict[str, Sharpness]


def _plain(value: Any) -> Any:
    if isinstance(value, Finding):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
