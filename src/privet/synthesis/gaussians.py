"""The distance between Gaussians that SPS minimises, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from privet.release import GaussianTarget, Moments
from privet.release.parts import outer_products


def gaussian_kl(target: GaussianTarget, found: Moments) -> Tensor:
    """KL(target ‖ Gaussian of these moments, jittered alike), one number per covariance.

    Where all groups share one covariance, it is the mean of their distances.
    """
    covariance = found.covariance
    jitter = target.jitter[:, None].expand(covariance.shape[:2])
    covariance = covariance + torch.diag_embed(jitter)
    distance: Tensor = _GaussianKL.apply(target, found.mean, covariance)  # type: ignore[no-untyped-call]
    return distance


class _GaussianKL(torch.autograd.Function):
    """The KL divergence: one factorisation forward, two matrix products back."""

    @staticmethod
    def forward(ctx: Any, target: GaussianTarget, mean: Tensor, covariance: Tensor) -> Tensor:
        factor, failed = torch.linalg.cholesky_ex(covariance)
        factor = factor.masked_fill(failed[:, None, None] > 0, torch.nan)  # who asks, refuses
        precision = torch.cholesky_inverse(factor)
        gap = mean - target.mean
        spread = target.covariance + outer_products(gap, len(covariance))
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
        by_mean = (precision @ gap[:, :, None])[:, :, 0] * (len(precision) / len(gap))
        by_covariance = (precision - product @ precision) / 2
        return None, gradient[:, None] * by_mean, gradient[:, None, None] * by_covariance
