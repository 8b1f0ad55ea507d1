"""Class means read off a noised sum; the summand's contract is in tests/hedge."""

import numpy as np
import pytest
import torch

from privet.hedge import GaussianSum, Hedge, NoisySum
from privet.privacy import Plan
from privet.release import ClassBlocks, class_means


def released(ledger, columns, clip_norm=20.0):
    mechanism = GaussianSum(clip_norm=clip_norm, noise_multiplier=0.5)
    hedge = Hedge(columns, ledger.reserve(plan=Plan.of(mechanism.event)))
    blocks = ClassBlocks(features=lambda units: units["x"], size=3, num_classes=3, count_scale=4.0)
    return hedge.release(blocks, mechanism)


def test_imbalanced_classes_get_their_own_means(ledger):
    """Sizes 10 : 1 and a class of nobody: counts are released, not assumed to be N / C."""
    labels = np.repeat([0, 1], [5000, 500])
    centres = np.array([[3.0, 0, 0], [0, -2.0, 1.0]])
    rng = np.random.default_rng(0)
    columns = {"x": centres[labels] + 0.1 * rng.standard_normal((5500, 3)), "labels": labels}
    means, counts = class_means(released(ledger, columns), 4.0)
    np.testing.assert_allclose(means[:2], centres, atol=0.3)
    np.testing.assert_allclose(counts[:2], [5000, 500], rtol=0.05)
    assert counts[2] < 50


def test_a_count_lost_in_noise_stays_a_usable_divisor():
    noisy = NoisySum({"sums": torch.ones(2, 3), "counts": torch.tensor([-7.0, 0.0])}, 2.0)
    means, counts = class_means(noisy, 0.5)
    assert counts.tolist() == [4.0, 4.0]
    assert means.isfinite().all()


def test_the_whole_vector_is_clipped_together(ledger):
    """A large count weight cannot smuggle a longer vector past the clip."""
    columns = {"x": np.zeros((1, 3)), "labels": np.zeros(1, np.int64)}
    blocks = ClassBlocks(features=lambda units: units["x"], size=3, num_classes=3, count_scale=1e6)
    from privet.hedge.clipping import clipped_sum
    from tests.hedge.summands import units

    total = clipped_sum([units(columns)], blocks, 1.5)
    assert float(total["counts"].norm()) == pytest.approx(1.5)
