"""Averages over batches, with the last batch's gradient."""

import pytest
import torch

from privet.errors import ConfigError
from privet.release import Moments
from privet.synthesis.averages import RunningMoments


def moments(value, *, second=True):
    mean = torch.full((2, 3), float(value))
    return {"a": Moments(mean, torch.full((2, 3, 3), 10.0 * value) if second else None)}


def test_early_batches_weigh_equally_and_later_ones_by_the_decay():
    averages = RunningMoments(0.75)
    expected, found = [], []
    kept = 0.0
    for number, value in enumerate([1.0, 2.0, 6.0, 4.0, 0.0, 8.0], start=1):
        share = max(0.25, 1 / number)
        kept = (1 - share) * kept + share * value
        expected.append(kept)
        found.append(averages(moments(value))["a"])
    assert expected[:3] == pytest.approx([1, 1.5, 3])  # plain means
    assert [float(each.mean[0, 0]) for each in found] == pytest.approx(expected)
    assert [float(each.second[1, 2, 0]) for each in found] == pytest.approx(
        [10 * each for each in expected]
    )


def test_no_decay_is_the_batch_itself():
    averages = RunningMoments(0.0)
    averages(moments(5))
    assert torch.equal(averages(moments(3))["a"].mean, moments(3)["a"].mean)


def test_parts_with_means_alone():
    averages = RunningMoments(0.5)
    averages(moments(1, second=False))
    found = averages(moments(3, second=False))["a"]
    assert found.second is None
    assert float(found.mean[0, 0]) == 2


def test_the_gradient_is_the_batchs_own_whatever_its_share():
    """Divided by the batch's share of the average (Loo et al. 2024): whole, not a fifth."""
    averages = RunningMoments(0.8)
    slope = torch.arange(6.0).reshape(2, 3)
    for seed in range(9):
        generator = torch.Generator().manual_seed(seed)
        mean = torch.randn(2, 3, generator=generator, requires_grad=True)
        second = torch.randn(2, 3, 3, generator=generator, requires_grad=True)
        found = averages({"a": Moments(mean, second)})["a"]
        ((slope * found.mean).sum() + 2 * found.second.sum()).backward()
        assert torch.equal(mean.grad, slope)
        assert torch.equal(second.grad, torch.full_like(second, 2.0))


def test_batches_that_are_over_keep_no_graph():
    averages = RunningMoments(0.8)
    first = torch.ones(1, 2, requires_grad=True)
    averages({"a": Moments(first)})
    averages({"a": Moments(torch.zeros(1, 2, requires_grad=True))})["a"].mean.sum().backward()
    assert first.grad is None


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_what_is_no_decay(decay):
    with pytest.raises(ConfigError, match="decay is"):
        RunningMoments(decay)
