"""From noised sums to Gaussians."""

import numpy as np
import pytest
import torch

from privet.errors import ConfigError
from privet.hedge import GaussianSum, Hedge, NoisySum
from privet.privacy import Plan
from privet.release import (
    Cleaning,
    Embedding,
    Moments,
    Part,
    class_totals,
    each_class,
    everyone,
    gaussian_targets,
    released_moments,
)
from privet.release.triangles import packed_size, unpack

SIZE = 4
NO_NOISE = torch.zeros(2)


def gaussians(eigenvalues, seed=0):
    """Moments whose covariances have these eigenvalues, (groups, D), in random directions."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.as_tensor(eigenvalues, dtype=torch.float64)
    square = torch.randn(*values.shape, values.shape[1], generator=generator, dtype=torch.float64)
    vectors, _ = torch.linalg.qr(square)
    covariance = (vectors * values[:, None]) @ vectors.transpose(1, 2)
    mean = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    return Moments(mean, covariance + mean[:, :, None] * mean[:, None]), covariance


def covariance_of_mean(moments):
    return moments.mean[:, :, None] * moments.mean[:, None]


def eigenvalues(target):
    return torch.linalg.eigvalsh(target.covariance)


class TestCleaning:
    def test_noise_below_zero_is_cut_and_sets_the_jitter(self):
        """SPS, Algorithm 3: γ times the most negative eigenvalue, added to all."""
        moments, _ = gaussians([[-0.2, -0.1, 0.5, 2.0], [0.3, 0.4, 0.5, 0.6]])
        target = Cleaning(jitter=2.0, least_jitter=0.01)(moments, NO_NOISE)
        torch.testing.assert_close(target.jitter, torch.tensor([0.4, 0.01]).double())
        expected = torch.tensor([[0.4, 0.4, 0.9, 2.4], [0.31, 0.41, 0.51, 0.61]]).double()
        torch.testing.assert_close(eigenvalues(target), expected)
        assert target.mean.equal(moments.mean)

    def test_an_even_jitter_is_the_mean_of_theirs(self):
        moments, _ = gaussians([[-0.2, -0.1, 0.5, 2.0], [0.3, 0.4, 0.5, 0.6]])
        target = Cleaning(jitter=2.0, least_jitter=0.01, even_jitter=True)(moments, NO_NOISE)
        torch.testing.assert_close(target.jitter, torch.tensor([0.205, 0.205]).double())
        expected = torch.tensor([[0.205, 0.205, 0.705, 2.205], [0.505, 0.605, 0.705, 0.805]])
        torch.testing.assert_close(eigenvalues(target), expected.double())

    def test_directions_are_kept(self):
        moments, covariance = gaussians([[0.1, 0.2, 0.3, 0.4]])
        target = Cleaning(least_jitter=0.05)(moments, NO_NOISE)
        torch.testing.assert_close(target.covariance, covariance + 0.05 * torch.eye(SIZE).double())
        torch.testing.assert_close(target.log_determinant, torch.logdet(target.covariance))

    @pytest.mark.parametrize("shrinkage", [0.0, 0.5, 1.0])
    def test_shrinkage_moves_to_the_mean_of_all_groups(self, shrinkage):
        moments, covariance = gaussians([[0.1, 0.2, 0.3, 0.4], [1.0, 1.0, 2.0, 2.0]])
        target = Cleaning(least_jitter=1e-9, shrinkage=shrinkage)(moments, NO_NOISE)
        expected = (1 - shrinkage) * covariance + shrinkage * covariance.mean(0)
        torch.testing.assert_close(target.covariance, expected, atol=1e-8, rtol=0)

    def test_shrinkage_follows_the_noise(self):
        """Closer to the truth than either end, at small, middling and large noise."""
        generator = torch.Generator().manual_seed(0)
        size, groups = 12, 10
        moments, covariance = gaussians(0.5 + torch.rand(groups, size, generator=generator))
        for noise in (0.003, 0.1, 1.0):
            drawn = noise * torch.randn(groups, packed_size(size), generator=generator).double()
            noised = Moments(moments.mean, moments.second + unpack(drawn, size))
            shrunk, plain, pooled = (
                Cleaning(shrinkage=each)._shrunk(
                    noised.second - covariance_of_mean(moments), torch.full((groups,), noise)
                )
                for each in (None, 0.0, 1.0)
            )
            gaps = [float((each - covariance).norm()) for each in (shrunk, plain, pooled)]
            assert gaps[0] <= 1.02 * min(gaps[1:])

    def test_a_class_of_nobody_does_not_spoil_the_others(self):
        """Its covariance is noise, and a hundred times that of the others' noise."""
        generator = torch.Generator().manual_seed(0)
        _, covariance = gaussians(0.5 + torch.rand(5, 8, generator=generator))
        noise = torch.tensor([0.01, 0.01, 0.01, 0.01, 1.0]).double()
        drawn = noise[:, None] * torch.randn(5, packed_size(8), generator=generator)
        shrunk = Cleaning(shrinkage=0.5)._shrunk(covariance + unpack(drawn, 8), noise)
        expected = (covariance + covariance[:4].mean(0)) / 2
        assert (shrunk - expected)[:4].norm() < 0.1 * expected[:4].norm()

    def test_no_noise_and_one_group_need_no_shrinkage(self):
        moments, covariance = gaussians([[0.1, 0.2, 0.3, 0.4], [1.0, 1.0, 2.0, 2.0]])
        cleaning = Cleaning(shrinkage=None, least_jitter=1e-9)
        found = cleaning(moments, NO_NOISE)
        torch.testing.assert_close(found.covariance, covariance, atol=1e-8, rtol=0)
        alone = Moments(moments.mean[:1], moments.second[:1])
        found = cleaning(alone, torch.ones(1))
        torch.testing.assert_close(found.covariance, covariance[:1], atol=1e-8, rtol=0)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0, 100.0])
    @pytest.mark.parametrize("shrinkage", [0.0, None])
    def test_always_positive_definite(self, dtype, noise, shrinkage):
        generator = torch.Generator().manual_seed(0)
        moments, _ = gaussians(torch.rand(3, 30, generator=generator) * 0.1)
        noised = torch.randn(3, 30, 30, generator=generator, dtype=torch.float64) * noise
        second = moments.second + noised + noised.transpose(1, 2)
        noised_moments = Moments(moments.mean.to(dtype), second.to(dtype))
        target = Cleaning(shrinkage=shrinkage)(noised_moments, torch.full((3,), noise).to(dtype))
        assert target.covariance.dtype == target.mean.dtype == target.jitter.dtype == dtype
        assert target.covariance.shape == (3, 30, 30)
        assert torch.linalg.cholesky_ex(target.covariance).info.eq(0).all()
        assert target.log_determinant.isfinite().all()
        smallest = eigenvalues(target)[:, 0]
        assert (smallest >= 0.99 * target.jitter - 1e-4 * noise).all()

    @pytest.mark.parametrize(
        "changed", [{"jitter": -1.0}, {"least_jitter": 0.0}, {"shrinkage": 1.5}], ids=str
    )
    def test_what_cleans_nothing_is_refused(self, changed):
        with pytest.raises(ConfigError, match="shrinkage between 0 and 1"):
            Cleaning(**changed)


def embedding(count_weight=2.0):
    parts = (
        Part(name="all", source="z", size=SIZE, groups=everyone(3), second_weight=0.5),
        Part(name="own", source="z", size=SIZE, groups=each_class(3), second_weight=0.5),
    )
    return Embedding(
        features=lambda images: {"z": images}, parts=parts, num_classes=3, count_weight=count_weight
    )


class TestReleased:
    def test_imbalanced_classes_get_their_own_gaussians(self, ledger):
        """Sizes 10 : 1 and a class of nobody: counts are released, not assumed to be N / C."""
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1], [5000, 500])
        centres = np.array([[0.5, 0, 0, -0.5], [0, -0.5, 0.5, 0]])
        images = (centres[labels] + 0.2 * rng.standard_normal((5500, 4))).astype(np.float32)
        mechanism = GaussianSum(clip_norm=5.0, noise_multiplier=0.5)
        hedge = Hedge(
            {"images": images, "labels": labels}, ledger.reserve(plan=Plan.of(mechanism.event))
        )
        of = embedding()
        released = hedge.release(of, mechanism)
        totals = class_totals(of, released)
        np.testing.assert_allclose(totals[:2], [5000, 500], rtol=0.02)
        assert totals[2] < 10
        found = released_moments(of, released)
        np.testing.assert_allclose(found["own"].mean[:2], centres, atol=0.05)
        target = gaussian_targets(of, released, Cleaning())["own"]
        np.testing.assert_allclose(target.covariance[0], 0.04 * np.eye(4), atol=0.02)
        assert target.log_determinant.isfinite().all()

    def test_a_count_lost_in_noise_stays_a_usable_divisor(self):
        of = embedding(count_weight=0.5)
        blocks = {name: torch.ones_like(zero) for name, zero in of.zeros().items()}
        blocks["counts.mean"] = torch.tensor([[-7.0], [0.0], [9.0]])
        released = NoisySum(blocks, 2.0)
        assert class_totals(of, released).tolist() == [4.0, 4.0, 18.0]
        assert all(each.mean.isfinite().all() for each in released_moments(of, released).values())

    def test_declared_counts_are_divided_by(self):
        of = embedding(count_weight=0.0)
        blocks = {name: torch.ones_like(zero) for name, zero in of.zeros().items()}
        released = NoisySum(blocks, 2.0)
        found = released_moments(of, released, torch.tensor([1.0, 2.0, 5.0]))
        assert found["own"].mean[:, 0].tolist() == pytest.approx([1.0, 0.5, 0.2])
        assert found["all"].mean[:, 0].tolist() == pytest.approx([1 / 8])
        assert found["own"].second[1, 0, 1] == pytest.approx(1.0)  # weight 0.5

    def test_targets_know_the_noise_of_their_own_groups(self):
        """Told to a cleaning: the release's scale over weight and total."""
        of = embedding()
        released = NoisySum({name: torch.ones_like(zero) for name, zero in of.zeros().items()}, 3.0)
        told = []

        class Told(Cleaning):
            def __call__(self, moments, noise):
                told.append(noise.tolist())
                return super().__call__(moments, noise)

        found = gaussian_targets(of, released, Told(), torch.tensor([1.0, 2.0, 5.0]))
        assert list(found) == ["all", "own"]
        assert told[0] == pytest.approx([3 / (0.5 * 8)])
        assert told[1] == pytest.approx([6.0, 3.0, 1.2])

    def test_counts_that_were_not_released_are_asked_for(self):
        of = embedding(count_weight=0.0)
        with pytest.raises(ConfigError, match="no counts: declare them"):
            released_moments(of, NoisySum(of.zeros(), 1.0))


def test_shares_are_those_of_released_counts():
    from privet.release import Embedding, class_shares

    embedding = Embedding(features=lambda _: {}, parts=(), num_classes=3, count_weight=0.1)

    def shares(counts):
        return class_shares(embedding, NoisySum({"counts.mean": torch.tensor(counts)[:, None]}, 1))

    torch.testing.assert_close(shares([6.0, -1.0, 2.0]), torch.tensor([0.75, 0, 0.25]).double())
    torch.testing.assert_close(shares([-6.0, -1.0, -2.0]), torch.full((3,), 1 / 3).double())


def test_shrinkage_that_follows_the_noise_goes_a_least_way():
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    covariance = factors @ factors.mT
    pooled = covariance.mean(0)
    shrunk = Cleaning(shrinkage=None, least_shrinkage=0.5)._shrunk(
        covariance, torch.full((3,), 1e-9).double()
    )
    torch.testing.assert_close(shrunk, (covariance + pooled) / 2)
    swamped = Cleaning(shrinkage=None, least_shrinkage=0.5)._shrunk(
        covariance, torch.full((3,), 1e3).double()
    )
    torch.testing.assert_close(swamped, pooled.expand(3, -1, -1))
