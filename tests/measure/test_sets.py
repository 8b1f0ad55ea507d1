"""Distances between sets: closed forms, and what they must tell apart."""

import math

import pytest
import torch

from privet.errors import DataError
from privet.measure import (
    frechet_distance,
    inception_score,
    memorisation,
    nearest,
    precision_and_recall,
)


def normal(count, size, seed=0):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


class TestFrechet:
    def test_of_gaussians_with_a_common_basis(self):
        base = normal(4000, 3).double()
        base = (base - base.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(base.T))).T
        first, second = base * torch.tensor([1.0, 2.0, 3.0]), base * torch.tensor([2.0, 1.0, 3.0])
        assert frechet_distance(first, second + 2.0) == pytest.approx(3 * 4 + 1 + 1, rel=1e-6)

    def test_against_the_formula_with_a_matrix_root(self):
        from scipy.linalg import sqrtm

        first, second = normal(60, 5).double() @ normal(5, 5, 3).double(), normal(50, 5, 1).double()
        a, b = torch.cov(first.T).numpy(), torch.cov(second.T).numpy()
        gap = (first.mean(0) - second.mean(0)).square().sum()
        expected = float(gap) + (a + b - 2 * sqrtm(a @ b).real).trace()
        assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)

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
        lambda: nearest(normal(3, 2), normal(2, 2), 3),
    ],
)
def test_sets_that_are_too_small_are_refused(call):
    with pytest.raises(DataError, match="too small"):
        call()


def test_everything_is_finite():
    assert math.isfinite(inception_score(torch.eye(3)[torch.zeros(30, dtype=torch.long)]))
