"""How sharp a loss is around weights: the largest eigenvalues of its Hessian, and its trace.

References:
    IDS, Table 4. Eigenvalues by Lanczos (ARPACK, in scipy), the trace by Hutchinson, 1990;
    both from products of the Hessian with vectors, which cost two gradients each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.errors import ConfigError

Batches = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""The same inputs and targets, every time it is called."""

BatchLoss = Callable[[Tensor, Tensor], Tensor]
"""From logits and targets to the mean loss of a batch."""

Vector = NDArray[np.float64]

_MOST_RESTARTS = 20  # of Lanczos, each about fifteen products


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The curvature of a loss at one set of weights; NaN for what could not be found.

    Args:
        eigenvalues: the largest eigenvalues of the Hessian, in falling order.
        trace: an estimate of its trace.
        trace_error: the standard error of that estimate.
    """

    eigenvalues: tuple[float, ...]
    trace: float
    trace_error: float

    @classmethod
    def unknown(cls, count: int) -> Curvature:
        """NaN throughout, where there is nothing to measure: without rows, for instance."""
        return cls(eigenvalues=(math.nan,) * count, trace=math.nan, trace_error=math.nan)

    @property
    def largest(self) -> float:
        """The largest eigenvalue, λ_max."""
        return self.eigenvalues[0]

    @property
    def ratio(self) -> float:
        """λ_max over the fifth eigenvalue, or over the last that is known."""
        fifth = self.eigenvalues[min(4, len(self.eigenvalues) - 1)]
        return self.eigenvalues[0] / fifth if fifth else math.nan


def curvature(
    model: nn.Module,
    loss: BatchLoss,
    batches: Batches,
    *,
    count: int = 5,
    probes: int = 20,
    seed: int = 0,
) -> Curvature:
    """Measure the curvature of the mean loss over all rows, at the model's weights.

    Args:
        model: a model in evaluation mode.
        loss: from outputs and targets to the mean loss of a batch.
        batches: gives the rows; products are averaged over batches by their sizes.
        count: the number of eigenvalues.
        probes: the number of random vectors for the trace.
        seed: the seed of random vectors.
    """
    parameters = [each for each in model.parameters() if each.requires_grad]
    size = sum(each.numel() for each in parameters)
    if not 1 <= count < size or probes < 2:
        raise ConfigError(f"count must lie between 1 and {size - 1}, and probes be 2 or more.")

    def product(vector: Vector) -> Vector:
        return _product(model, loss, batches, parameters, vector)

    rng = np.random.default_rng(seed)
    start = rng.standard_normal(size)
    signs = (rng.choice([-1.0, 1.0], size) for _ in range(probes))
    traces = np.array([float(sign @ product(sign)) for sign in signs])
    if not np.isfinite(traces).all():
        return Curvature.unknown(count)
    return Curvature(
        eigenvalues=_largest(product, start, count),
        trace=float(traces.mean()),
        trace_error=float(traces.std(ddof=1) / np.sqrt(probes)),
    )


def _largest(product: Callable[[Vector], Vector], start: Vector, count: int) -> tuple[float, ...]:
    """The largest eigenvalues in falling order; NaN where Lanczos fails, as for a zero Hessian."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    hessian = LinearOperator((start.size, start.size), matvec=product, dtype=np.float64)
    settings = {"tol": 1e-3, "maxiter": _MOST_RESTARTS, "return_eigenvectors": False}
    try:
        values = eigsh(hessian, k=count, which="LA", v0=start, **settings)
    except ArpackError:
        return (math.nan,) * count
    return tuple(float(each) for each in np.sort(values)[::-1])


def _product(
    model: nn.Module,
    loss: BatchLoss,
    batches: Batches,
    parameters: list[nn.Parameter],
    vector: Vector,
) -> Vector:
    sizes = [each.numel() for each in parameters]
    flat = torch.from_numpy(np.ascontiguousarray(vector.ravel()))
    along = [
        part.reshape(each.shape).to(each)
        for part, each in zip(torch.split(flat, sizes), parameters, strict=True)
    ]
    total, rows = np.zeros(sum(sizes)), 0
    for inputs, targets in batches():
        with torch.enable_grad():
            slopes = torch.autograd.grad(
                loss(model(inputs), targets),
                parameters,
                create_graph=True,
                materialize_grads=True,
                allow_unused=True,
            )
            inner = torch.stack([(a * b).sum() for a, b in zip(slopes, along, strict=True)]).sum()
            found = torch.autograd.grad(
                inner, parameters, allow_unused=True, materialize_grads=True
            )
        joined = torch.cat([each.flatten() for each in found]).double().cpu().numpy()
        total, rows = total + len(inputs) * joined, rows + len(inputs)
    return total / max(1, rows)
