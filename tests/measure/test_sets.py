"""Distances between sets: closed forms, and what they must tell apart."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from sklearn.datasets import load_digits
from torch import nn

from privet.errors import DataError
from privet.measure import (
    density_and_coverage,
    frechet_distance,
    inception_score,
    memorisation,
    nearest,
    precision_and_recall,
    sets,
)


def normal(count, size, seed=0):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def halves(rows):
    """Of real digits, in random order."""
    digits = torch.from_numpy(load_digits().data)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(0))[:rows]
    return torch.tensor_split(digits[order], 2)


def by_root(first, second):
    """The formula as it stands in Heusel et al."""
    a, b = (np.cov(each.numpy(), rowvar=False) for each in (first, second))
    gap = np.square(first.numpy().mean(0) - second.numpy().mean(0)).sum()
    return float(gap + np.trace(a + b - 2 * sqrtm(a @ b).real))


def by_torchmetrics(first, second):
    from torchmetrics.image.fid import FrechetInceptionDistance  # takes seconds

    looks = nn.Identity()
    looks.num_features = first.shape[1]
    metric = FrechetInceptionDistance(looks).set_dtype(torch.float64)
    metric.update(first, real=True)
    metric.update(second, real=False)
    return float(metric.compute())


class TestFrechet:
    def test_of_gaussians_with_a_common_basis(self):
        base = normal(4000, 3).double()
        base = (base - base.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(base.T))).T
        first, second = base * torch.tensor([1.0, 2.0, 3.0]), base * torch.tensor([2.0, 1.0, 3.0])
        assert frechet_distance(first, second + 2.0) == pytest.approx(3 * 4 + 1 + 1, rel=1e-6)

    def test_against_the_formula_with_a_matrix_root(self):
        first, second = normal(60, 5).double() @ normal(5, 5, 3).double(), normal(50, 5, 1).double()
        assert frechet_distance(first, second) == pytest.approx(by_root(first, second), rel=1e-6)

    @pytest.mark.filterwarnings("ignore:Matrix is singular")  # some pixels never change
    @pytest.mark.parametrize("rows", [1797, 100])
    def test_of_two_halves_of_real_images(self, rows):
        first, second = halves(rows)
        found = frechet_distance(first, second)
        assert found > 0
        assert found == pytest.approx(by_root(first, second), rel=0.005)
        assert found == pytest.approx(by_torchmetrics(first, second), rel=0.005)

    def test_a_set_is_at_no_distance_from_itself_even_with_few_rows(self):
        few = normal(4, 20)
        assert frechet_distance(few, few) == pytest.approx(0, abs=1e-6)


class TestInceptionScore:
    def test_sure_and_even_is_the_number_of_classes(self):
        assert inception_score(torch.eye(5).repeat(20, 1), 4) == pytest.approx(5)

    def test_unsure_is_one(self):
        assert inception_score(torch.full((40, 5), 0.2)) == pytest.approx(1)


class TestPrecisionAndRecall:
    def test_a_copy_has_both(self):
        real = normal(80, 4)
        assert precision_and_recall(real, real) == (1.0, 1.0)

    def test_one_mode_of_two_is_precise_and_forgets_the_other(self):
        one, other = normal(100, 2), normal(100, 2, 1) + 50
        precision, recall = precision_and_recall(torch.cat([one, other]), normal(100, 2, 2))
        assert precision > 0.9
        assert 0.4 < recall <= 0.5

    def test_far_away_has_neither(self):
        assert precision_and_recall(normal(50, 3), normal(50, 3, 1) + 100) == (0.0, 0.0)

    def test_by_hand(self):
        real = torch.tensor([[0.0], [1.0], [10.0]])
        # With one neighbour, radii are 1, 1 and 9.
        precision, _ = precision_and_recall(real, torch.tensor([[1.9], [2.1], [-5.0]]), 1)
        assert precision == pytest.approx(2 / 3)  # 2.1 lies within 9 of 10


class TestDensityAndCoverage:
    @pytest.mark.parametrize("neighbours", [1, 5])
    def test_point_by_point(self, neighbours):
        real, synthetic = normal(70, 3).double(), 0.7 * normal(50, 3, 1).double() + 0.3
        inside = np.zeros((len(real), len(synthetic)), bool)
        for i, x in enumerate(real.numpy()):
            others = np.delete(real.numpy(), i, 0)
            radius = np.sort(np.linalg.norm(others - x, axis=1))[neighbours - 1]
            inside[i] = np.linalg.norm(synthetic.numpy() - x, axis=1) < radius
        density, coverage = density_and_coverage(real, synthetic, neighbours)
        assert density == pytest.approx(inside.sum() / (neighbours * len(synthetic)))
        assert coverage == pytest.approx(inside.any(1).mean())

    def test_by_hand(self):
        real = torch.tensor([[0.0], [1.0], [10.0]])
        # With one neighbour, radii are 1, 1 and 9: one point in two balls, one in the last alone.
        synthetic = torch.tensor([[1.5], [5.0]])
        assert density_and_coverage(real, synthetic, 1) == pytest.approx((3 / 2, 2 / 3))

    def test_a_copy_has_both(self):
        real = normal(80, 4).double()
        # Every k-th neighbour lies on a border, where rounding decides.
        assert density_and_coverage(real, real) == pytest.approx((1.0, 1.0), abs=0.02)

    def test_sets_that_are_alike(self):
        """Density is 1 on average, coverage 1 - (N - 1)…(N - k) / (2N - 1)…(2N - k)."""
        size, neighbours = 1500, 5
        missed = math.prod((size - i) / (2 * size - i) for i in range(1, neighbours + 1))
        density, coverage = density_and_coverage(normal(size, 4), normal(size, 4, 1))
        assert density == pytest.approx(1, abs=0.05)
        assert coverage == pytest.approx(1 - missed, abs=0.02)

    def test_one_mode_of_two_leaves_the_other(self):
        one, other = normal(100, 2), normal(100, 2, 1) + 50
        density, coverage = density_and_coverage(torch.cat([one, other]), normal(100, 2, 2))
        assert density == pytest.approx(1, abs=0.2)
        assert 0.4 < coverage <= 0.5

    def test_what_keeps_to_the_middle_is_dense_and_reaches_less(self):
        density, coverage = density_and_coverage(normal(400, 10), 0.3 * normal(400, 10, 1))
        assert density > 1.5
        assert coverage < 0.9

    def test_an_outlier_raises_precision_and_not_density(self):
        """The reason for density (Naeem et al., Figure 3)."""
        real = torch.cat([normal(200, 2), torch.tensor([[30.0, 0.0]])])
        synthetic = normal(200, 2, 1) + torch.tensor([15.0, 0.0])
        precision, _ = precision_and_recall(real, synthetic)
        density, _ = density_and_coverage(real, synthetic)
        assert precision > 0.9
        assert density < 0.3

    def test_it_does_not_depend_on_how_rows_are_split(self, monkeypatch):
        real, synthetic = normal(90, 3).double(), normal(110, 3, 1).double()
        whole = density_and_coverage(real, synthetic)
        monkeypatch.setattr(sets, "_ROWS", 8)
        assert density_and_coverage(real, synthetic) == whole


def test_nearest_does_not_depend_on_how_rows_are_split():
    points, others = normal(2500, 3), normal(40, 3, 1)
    distances, which = nearest(points, others, 2)
    torch.testing.assert_close(distances[2000:2010], nearest(points[2000:2010], others, 2)[0])
    whole = torch.cdist(points, others)
    assert torch.equal(which[:, 0], whole.argmin(1))
    assert (distances[:, 0] <= distances[:, 1]).all()


def test_memorisation():
    seen, unseen = normal(200, 5), normal(300, 5, 1)
    assert memorisation(seen[:50], seen, unseen) == 1.0
    assert memorisation(normal(400, 5, 2), seen, unseen) == pytest.approx(0.5, abs=0.1)
    assert memorisation(unseen[:50], seen, unseen) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: frechet_distance(normal(1, 3), normal(9, 3)),
        lambda: inception_score(torch.full((3, 2), 0.5)),
        lambda: precision_and_recall(normal(3, 2), normal(9, 2)),
        lambda: density_and_coverage(normal(5, 2), normal(9, 2)),
        lambda: density_and_coverage(normal(9, 2), normal(0, 2)),
        lambda: nearest(normal(3, 2), normal(2, 2), 3),
    ],
)
def test_sets_that_are_too_small_are_refused(call):
    with pytest.raises(DataError, match="too small"):
        call()


@pytest.mark.parametrize("measure", [frechet_distance, precision_and_recall, density_and_coverage])
def test_sets_that_cannot_be_compared_are_refused(measure):
    with pytest.raises(DataError, match="3 and of 4 features"):
        measure(normal(9, 3), normal(9, 4))
    with pytest.raises(DataError, match="not finite"):
        measure(normal(9, 3), torch.full((9, 3), math.inf))


def test_everything_is_finite():
    assert math.isfinite(inception_score(torch.eye(3)[torch.zeros(30, dtype=torch.long)]))
