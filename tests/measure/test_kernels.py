"""KID and MMD: by other implementations, in closed form, and what they must tell apart."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from privet.errors import ConfigError, DataError
from privet.measure import kernel_distance, mean_discrepancy, median_distance
from privet.measure import kernels as module


def normal(count, size, seed=0):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed)).double()


def by_pairs(first, second, kernel):
    """The unbiased squared MMD, one pair at a time."""
    x, y = first.numpy(), second.numpy()

    def within(rows):
        pairs = [kernel(a, b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
        return np.mean(pairs)

    return within(x) + within(y) - 2 * np.mean([kernel(a, b) for a in x for b in y])


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`:UserWarning")
def by_torchmetrics(real, synthetic, **settings):
    from torchmetrics.image.kid import KernelInceptionDistance  # takes seconds

    metric = KernelInceptionDistance(nn.Identity(), **settings).set_dtype(torch.float64)
    metric.update(real, real=True)
    metric.update(synthetic, real=False)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        mean, std = metric.compute()
    return float(mean), float(std)


class TestKernelDistance:
    def test_by_pairs(self):
        real, synthetic = normal(12, 4), normal(12, 4, 1) + 0.5
        expected = by_pairs(real, synthetic, lambda a, b: (a @ b / 4 + 1) ** 3)
        found = kernel_distance(real, synthetic, subsets=1, size=12)
        assert found.mean == pytest.approx(expected, rel=1e-9)
        assert (found.std, found.size) == (0.0, 12)

    @pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`:UserWarning")
    def test_against_torchmetrics_on_whole_sets(self):
        real, synthetic = normal(150, 16).abs(), (1.1 * normal(150, 16, 1)).abs()
        expected, _ = by_torchmetrics(real, synthetic, subsets=1, subset_size=150)
        found = kernel_distance(real, synthetic, subsets=1, size=150)
        assert found.mean == pytest.approx(expected, rel=1e-9)

    @pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`:UserWarning")
    def test_against_torchmetrics_on_subsets(self):
        """Subsets are others, so that their means agree as two means of a hundred do."""
        real, synthetic = normal(400, 16).abs(), (1.1 * normal(500, 16, 1)).abs()
        mean, std = by_torchmetrics(real, synthetic, subsets=100, subset_size=100)
        found = kernel_distance(real, synthetic, size=100)
        assert found.mean == pytest.approx(mean, abs=5 * math.sqrt(2) * std / 10)
        assert 0.6 < found.std / std < 1.6

    def test_it_does_not_depend_on_blocks(self, monkeypatch):
        real, synthetic = normal(50, 3), normal(40, 3, 1)
        whole = kernel_distance(real, synthetic, subsets=3)
        monkeypatch.setattr(module, "_AT_ONCE", 7)
        assert kernel_distance(real, synthetic, subsets=3).mean == pytest.approx(whole.mean)

    def test_means_apart_in_closed_form(self):
        """In one dimension, of points at 1 and at 0: (2³ + 1 - 2 · 1)."""
        ones, zeros = torch.ones(10, 1), torch.zeros(10, 1)
        assert kernel_distance(ones, zeros).mean == pytest.approx(8 + 1 - 2)

    def test_sets_that_are_alike_lie_around_nothing(self):
        found = kernel_distance(normal(400, 8), normal(400, 8, 1))
        assert abs(found.mean) < 3 * found.std
        assert found.size == 200
        assert kernel_distance(normal(400, 8), normal(400, 8, 1) + 1).mean > 10 * found.std

    def test_a_set_and_itself(self):
        rows = normal(60, 5)
        found = kernel_distance(rows, rows, subsets=1, size=60)
        # Pairs of a row with itself count between sets alone, so that the estimate is below 0.
        assert -0.5 < found.mean < 0

    def test_subsets_are_as_published_where_there_are_enough_rows(self, monkeypatch):
        monkeypatch.setattr(module, "_squared_mmd", lambda x, y, kernel: float(len(x)))
        found = kernel_distance(normal(2500, 1), normal(2100, 1))
        assert (found.size, found.mean) == (1000, 1000.0)

    def test_the_seed_alone_decides(self):
        real, synthetic = normal(60, 3), normal(60, 3, 1)
        one = kernel_distance(real, synthetic)
        torch.manual_seed(3)
        assert kernel_distance(real, synthetic) == one
        assert kernel_distance(real, synthetic, seed=1) != one
        assert one.std > 0

    @pytest.mark.parametrize("settings", [{"size": 1}, {"subsets": 0}])
    def test_settings_without_sense_are_refused(self, settings):
        with pytest.raises(ConfigError, match="subsets of"):
            kernel_distance(normal(20, 2), normal(20, 2), **settings)


class TestMeanDiscrepancy:
    def test_by_pairs(self):
        real, synthetic = normal(12, 4), normal(9, 4, 1) + 0.5
        expected = by_pairs(
            real, synthetic, lambda a, b: math.exp(-np.square(a - b).sum() / (2 * 1.5**2))
        )
        assert mean_discrepancy(real, synthetic, 1.5) == pytest.approx(expected, rel=1e-9)

    def test_the_length_scale_is_the_median_of_real_distances(self):
        real, synthetic = normal(40, 3), normal(30, 3, 1)
        distances = [float((a - b).norm()) for i, a in enumerate(real) for b in real[:i]]
        assert median_distance(real) == pytest.approx(np.median(distances))
        assert mean_discrepancy(real, synthetic) == mean_discrepancy(
            real, synthetic, median_distance(real)
        )

    def test_of_gaussians_in_closed_form(self):
        """Unit Gaussians in D dimensions, their means m apart (Gretton et al., 2012)."""
        size, apart, scale = 3, 1.2, 1.7
        factor = (scale**2 / (scale**2 + 2)) ** (size / 2)
        expected = 2 * factor * (1 - math.exp(-(apart**2) / (2 * (scale**2 + 2))))
        shift = torch.tensor([apart, 0.0, 0.0])
        found = mean_discrepancy(normal(3000, size), normal(3000, size, 1) + shift, scale)
        assert found == pytest.approx(expected, rel=0.1)

    def test_sets_that_are_alike_lie_around_nothing(self):
        found = [
            mean_discrepancy(normal(200, 4, 2 * i), normal(200, 4, 2 * i + 1)) for i in range(9)
        ]
        assert max(map(abs, found)) < 0.02
        assert min(found) < 0 < max(found)

    def test_far_sets_and_sets_of_one_point(self):
        far = mean_discrepancy(torch.zeros(9, 2), torch.full((9, 2), 100.0))
        assert far == pytest.approx(2)
        assert mean_discrepancy(torch.zeros(9, 2), torch.zeros(9, 2)) == 0

    def test_equal_rows_do_not_make_the_scale_zero(self):
        real = torch.cat([torch.zeros(90, 1), torch.full((10, 1), 2.0)])
        assert median_distance(real) == 2

    def test_many_rows_are_represented_by_some(self, monkeypatch):
        rows = normal(600, 3)
        whole = median_distance(rows)
        monkeypatch.setattr(module, "_FOR_MEDIAN", 200)
        assert median_distance(rows) == pytest.approx(whole, rel=0.1)

    @pytest.mark.parametrize("scale", [0.0, -1.0, math.nan])
    def test_a_scale_without_sense_is_refused(self, scale):
        with pytest.raises(ConfigError, match="length scale"):
            mean_discrepancy(normal(9, 2), normal(9, 2), scale)


@pytest.mark.parametrize("measure", [kernel_distance, mean_discrepancy])
class TestBadInput:
    def test_too_small(self, measure):
        with pytest.raises(DataError, match="too small"):
            measure(normal(1, 3), normal(9, 3))

    def test_of_different_extractors(self, measure):
        with pytest.raises(DataError, match="cannot be compared"):
            measure(normal(9, 3), normal(9, 4))

    def test_not_finite(self, measure):
        broken = normal(9, 3)
        broken[4, 1] = math.nan
        with pytest.raises(DataError, match="not finite"):
            measure(normal(9, 3), broken)
