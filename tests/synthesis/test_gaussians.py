"""The closed form and its gradient against PyTorch's own."""

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from privet.release import Cleaning, GaussianTarget, Moments
from privet.release.triangles import pack, unpack
from privet.synthesis.gaussians import gaussian_kl

GROUPS, SIZE = 3, 4


def moments(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(GROUPS, 40, SIZE, generator=generator, dtype=torch.float64)
    rows = rows * (0.5 + torch.rand(GROUPS, 1, SIZE, generator=generator)) + 0.3
    return Moments(rows.mean(1).to(dtype), (rows.transpose(1, 2) @ rows / 40).to(dtype))


def target(seed=0, dtype=torch.float64, **cleaning):
    cleaned = Cleaning(**{"least_jitter": 0.1, **cleaning})
    return cleaned(moments(seed, dtype), torch.zeros(GROUPS))


def reference(of, found):
    covariance = found.second - found.mean[:, :, None] * found.mean[:, None]
    covariance = covariance + of.jitter[:, None, None] * torch.eye(SIZE).to(covariance)
    return kl_divergence(
        MultivariateNormal(of.mean, of.covariance), MultivariateNormal(found.mean, covariance)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_divergence_per_group(dtype):
    of, found = target(dtype=dtype), moments(1, dtype)
    distance = gaussian_kl(of, found)
    assert distance.shape == (GROUPS,)
    torch.testing.assert_close(distance, reference(of, found))
    assert (distance > 0).all()


def test_a_known_case():
    """N(0, 1) to N(1, 4): (1/4 + 1/4 − 1 + log 4) / 2."""
    of = GaussianTarget(torch.zeros(1, 1), torch.ones(1, 1, 1), torch.full((1,), 0.5))
    found = Moments(torch.ones(1, 1), torch.full((1, 1, 1), 1.0 + 3.5))
    assert float(gaussian_kl(of, found)) == pytest.approx((0.5 - 1 + 1.3862944) / 2)


@pytest.mark.parametrize("least_jitter", [1e-3, 0.5])
def test_images_like_the_private_ones_are_at_distance_zero(least_jitter):
    """The jitter is on both sides, so that matching moments is the minimum."""
    found = moments(0)
    of = target(least_jitter=least_jitter)
    [by_mean, by_second] = torch.autograd.grad(
        gaussian_kl(of, Moments(found.mean.requires_grad_(), found.second.requires_grad_())).sum(),
        (found.mean, found.second),
    )
    torch.testing.assert_close(gaussian_kl(of, found), torch.zeros(GROUPS).double())
    assert by_mean.abs().max() < 1e-9
    assert by_second.abs().max() < 1e-9


def test_gradients_are_those_of_small_steps():
    """Of symmetric second moments: one triangle moves both."""
    of, found = target(), moments(1)

    def distance(mean, triangles):
        return gaussian_kl(of, Moments(mean, unpack(triangles, SIZE)))

    inputs = found.mean.requires_grad_(), pack(found.second).requires_grad_()
    assert torch.autograd.gradcheck(distance, inputs)


def test_gradients_are_those_of_pytorch():
    """Down to the images' features, each group with its own weight."""
    features = torch.randn(GROUPS, 30, SIZE, generator=torch.Generator().manual_seed(5)).double()
    features.requires_grad_()
    weights = torch.tensor([1.0, -2.0, 0.5]).double()
    slopes = []
    for distance in (gaussian_kl, reference):
        second = features.transpose(1, 2) @ features / 30
        total = weights @ distance(target(), Moments(features.mean(1), second))
        slopes.append(torch.autograd.grad(total, features)[0])
    torch.testing.assert_close(*slopes)


def test_descent_finds_the_target():
    of = target()
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(GROUPS, 60, SIZE, generator=generator).double().requires_grad_()
    optimizer = torch.optim.Adam([features], lr=0.05)
    for _ in range(200):
        found = Moments(features.mean(1), features.transpose(1, 2) @ features / 60)
        distance = gaussian_kl(of, found).sum()
        optimizer.zero_grad()
        distance.backward()
        optimizer.step()
    assert float(distance.detach()) < 1e-3
