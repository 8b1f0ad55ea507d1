"""The distance between Gaussians that SPS minimises, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from privet.release import GaussianTarget, Moments


def gaussian_kl(target: GaussianTarget, found: Moments) -> Tensor:
    """KL(target ‖ Gaussian of these moments, jittered alike), one number per group."""
    assert found.second is not None
    covariance = found.second - found.mean[:, :, None] * found.mean[:, None, :]
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    covariance = covariance + target.jitter[:, None, None] * identity
    distance: Tensor = _GaussianKL.apply(target, found.mean, covariance)  # type: ignore[no-untyped-call]
    return distance


class _GaussianKL(torch.autograd.Function):
    """One factorisation forward, two matrix products back."""

    @staticmethod
    def forward(ctx: Any, target: GaussianTarget, mean: Tensor, covariance: Tensor) -> Tensor:
        factor, failed = torch.linalg.cholesky_ex(covariance)
        factor = factor.masked_fill(failed[:, None, None] > 0, torch.nan)  # who asks, refuses
        precision = torch.cholesky_inverse(factor)
        gap = mean - target.mean
        spread = target.covariance + gap[:, :, None] * gap[:, None, :]
        product = precision @ spread
        ctx.save_for_backward(precision, product, gap)
        traces = product.diagonal(dim1=1, dim2=2).sum(1)
        logs = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1) - target.log_determinant
        distances: Tensor = (traces - mean.shape[1] + logs) / 2
        return distances

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        precision, product, gap = ctx.saved_tensors
        [gradient] = gradients
        by_mean = (precision @ gap[:, :, None])[:, :, 0]
        by_covariance = (precision - product @ precision) / 2
        return None, gradient[:, None] * by_mean, gradient[:, None, None] * by_covariance
