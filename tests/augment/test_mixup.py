"""Mixtures, and the distribution of their weights."""

import numpy as np
import pytest
import torch
from scipy import stats

from privet.augment import beta, cut_pairs, mix_pairs
from privet.errors import ConfigError


def seed(number=0):
    return torch.Generator().manual_seed(number)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 8.0])
def test_weights_follow_the_beta_distribution(alpha):
    """On the lower half, where small alphas do not round to 1."""
    draws = beta(alpha, (40_000,), seed(), torch.float64).numpy()
    lower = draws[draws < 0.5]
    assert stats.binomtest(len(lower), len(draws)).pvalue > 1e-3

    def fit(parameter):
        return stats.kstest(lower, lambda x: 2 * stats.beta.cdf(x, parameter, parameter)).pvalue

    assert fit(alpha) > 1e-3
    assert fit(1.1 * alpha) < 1e-3


def test_tiny_alphas_give_either_end_and_never_the_middle():
    """Gamma draws that both underflow have a ratio of one half."""
    draws = beta(1e-4, (10_000,), seed(), torch.float64)
    assert draws.isfinite().all()
    assert ((draws < 0.01) | (draws > 0.99)).float().mean() > 0.99
    assert float(draws.mean()) == pytest.approx(0.5, abs=0.02)


def test_only_the_generator_decides():
    state = torch.random.get_rng_state()
    first = beta(0.2, (3, 4), seed(1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.dtype == torch.float32
    assert first.shape == (3, 4)
    assert torch.equal(beta(0.2, (3, 4), seed(1)), first)
    assert not torch.equal(beta(0.2, (3, 4), seed(2)), first)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_alphas_out_of_range_are_refused(alpha):
    with pytest.raises(ConfigError, match="alpha is"):
        beta(alpha, (1,), seed())


@pytest.mark.parametrize("shape", [(), (4,), (4, 1)])
def test_images_and_labels_are_mixed_alike(shape):
    rng = np.random.default_rng(0)
    first, second = torch.tensor(rng.random((2, 4, 3, 2, 2)))
    one, other = torch.tensor(rng.dirichlet(np.ones(5), (2, 4)))
    weight = torch.tensor(rng.random(shape))
    images, labels = mix_pairs(first, second, one, other, weight)
    for i, w in enumerate(weight.flatten().expand(4)):
        np.testing.assert_allclose(images[i], w * first[i] + (1 - w) * second[i])
        np.testing.assert_allclose(labels[i], w * one[i] + (1 - w) * other[i])
    torch.testing.assert_close(labels.sum(1), torch.ones(4, dtype=torch.float64))


def test_weights_do_not_change_the_type_of_images():
    images, labels = torch.ones(2, 1, 2, 2), torch.eye(2)
    weight = torch.tensor([0.25, 0.5], dtype=torch.float64)
    mixed, _ = mix_pairs(images, images, labels, labels, weight)
    assert mixed.dtype == torch.float32


def test_class_numbers_are_not_probabilities():
    images, numbers = torch.ones(2, 1, 2, 2), torch.tensor([0, 1])
    with pytest.raises(ConfigError, match="probabilities"):
        mix_pairs(images, images, numbers, numbers, torch.tensor(0.5))


def test_a_cut_mixture_takes_labels_by_area():
    first, second = torch.zeros(300, 2, 9, 12), torch.ones(300, 2, 9, 12)
    own, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    images, labels = cut_pairs(
        first, second, own.repeat(300, 1), other.repeat(300, 1), torch.Generator().manual_seed(0)
    )
    area = images.mean((1, 2, 3))
    torch.testing.assert_close(labels, torch.stack([1 - area, area], 1))
    assert torch.equal(images[:, 0], images[:, 1])
    for image in images[:, 0]:  # one rectangle
        assert torch.equal(image, image.amax(1, keepdim=True) * image.amax(0, keepdim=True))
    assert 0.2 < float(area.mean()) < 0.5
