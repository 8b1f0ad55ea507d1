"""Projections and lenses: bounded features of maps."""

import pytest
import torch
from torch import nn

from privet.augment import to_float
from privet.errors import ConfigError
from privet.models import FeatureMaps
from privet.release import Lens, Projection, Seen, taken
from privet.release.lenses import IMAGE, seen_maps


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count=6):
    return torch.randint(256, (count, 8, 8, 1), generator=generator(), dtype=torch.uint8)


@pytest.fixture
def maps():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 6, 3, stride=2))
    return FeatureMaps(network, ["0", "2"])


def spread_out(count=400):
    """Features with a few strong directions and a mean."""
    mixing = torch.randn(20, 20, generator=generator()) * torch.logspace(1, -2, 20)[:, None]
    return torch.randn(count, 20, generator=generator(1)) @ mixing + 3.0


class TestProjection:
    def test_it_is_the_papers_squashing(self):
        """z = 2σ(M f) − 1 (SPS, Algorithm 2)."""
        projection = Projection(torch.randn(3, 5), torch.randn(5))
        features = torch.randn(7, 4, 5)
        found = 2 * torch.sigmoid((features - projection.mean) @ projection.matrix.T) - 1
        torch.testing.assert_close(projection(features), found)
        assert projection.size == 3

    def test_features_are_bounded(self):
        projection = Projection.random(10, 8, generator())
        found = projection(torch.randn(50, 10, generator=generator(1)) * 1e6)
        assert found.abs().max() <= 1

    def test_random_entries_keep_magnitudes(self):
        projection = Projection.random(400, 300, generator())
        assert float(projection.matrix.var()) == pytest.approx(1 / 400, rel=0.02)
        features = torch.randn(50, 400, generator=generator(1))
        projected = features @ projection.matrix.T
        assert float(projected.std()) == pytest.approx(1.0, rel=0.05)
        assert not projection.mean.any()
        again = Projection.random(400, 300, generator())
        assert projection.matrix.equal(again.matrix)

    @pytest.mark.parametrize("stretch", [0.5, 1.0, 2.0])
    def test_principal_components_are_white_on_public_features(self, stretch):
        features = spread_out()
        projection = Projection.principal(features, 6, stretch=stretch)
        projected = (features - projection.mean) @ projection.matrix.T
        covariance = projected.T @ projected / len(features)
        torch.testing.assert_close(covariance, stretch**2 * torch.eye(6), atol=0.01, rtol=0.01)

    def test_principal_components_are_those_of_most_variance(self):
        features = spread_out()
        matrix = Projection.principal(features, 6).matrix
        _, vectors = torch.linalg.eigh(torch.cov(features.T))
        directions = matrix / matrix.norm(dim=1, keepdim=True)
        inside = (directions @ vectors[:, -6:]).norm(dim=1)
        torch.testing.assert_close(inside, torch.ones(6), atol=1e-3, rtol=0)

    def test_directions_that_hold_only_rounding_are_not_blown_up(self):
        """Two real directions of twelve: the other components stay as small as they are."""
        features = torch.randn(200, 2, generator=generator()) @ torch.randn(2, 12)
        projection = Projection.principal(features, 5)
        projected = (features - projection.mean) @ projection.matrix.T
        assert projected[:, 2:].abs().max() < 0.01

    def test_global_randomness_is_neither_used_nor_disturbed(self):
        torch.manual_seed(1)
        first = Projection.principal(spread_out(), 4)
        drawn = torch.rand(3)
        torch.manual_seed(1)
        assert drawn.equal(torch.rand(3))
        assert first.matrix.equal(Projection.principal(spread_out(), 4).matrix)

    @pytest.mark.parametrize("shape", [(5, 20), (20, 5)])
    def test_more_components_than_there_are_are_refused(self, shape):
        with pytest.raises(ConfigError, match="5 principal components need more than as many"):
            Projection.principal(torch.randn(shape), 5)

    @pytest.mark.parametrize("value", [0.0, 0.1, 1.0])
    def test_images_that_are_all_alike_are_refused(self, value):
        with pytest.raises(ConfigError, match="all look alike"):
            Projection.principal(torch.full((30, 20), value), 5)

    def test_images_that_hardly_differ_are_refused(self):
        features = torch.zeros(30, 20)
        features[3, 2] = 1e-44
        with pytest.raises(ConfigError, match="hardly differ"):
            Projection.principal(features, 5)

    @pytest.mark.parametrize("bad", [torch.nan, torch.inf])
    def test_features_that_are_not_finite_are_refused(self, bad):
        features = spread_out()
        features[3, 2] = bad
        with pytest.raises(ConfigError, match="not finite"):
            Projection.principal(features, 4)


class TestLens:
    @pytest.mark.parametrize(
        ("grid", "shape"), [(4, (2, 3 * 16)), (1, (2, 3)), (8, (2, 3 * 64)), (9, (2, 3 * 64))]
    )
    def test_a_grid_is_averaged_down_to(self, grid, shape):
        assert Lens(layer="a", grid=grid).taken(torch.rand(2, 3, 8, 8)).shape == shape

    def test_one_cell_is_the_spatial_mean(self):
        found = torch.rand(2, 3, 8, 8)
        torch.testing.assert_close(Lens(layer="a", grid=1).taken(found), found.mean((2, 3)))

    def test_positions_alone(self):
        found = torch.rand(2, 3, 4, 5)
        taken_ = Lens(layer="a", grid=0).taken(found)
        assert taken_.shape == (2, 20, 3)
        assert taken_[1, 7].equal(found[1, :, 1, 2])

    @pytest.mark.parametrize("grid", [0, 3])
    def test_vectors_stay(self, grid):
        found = torch.rand(2, 7)
        assert Lens(layer="a", grid=grid).taken(found).equal(found)


class TestSeen:
    def seen(self, maps):
        lenses = {
            "pixels": Lens(layer=IMAGE, grid=4, projection=Projection.random(16, 5, generator(1))),
            "first": Lens(layer="0", grid=0, projection=Projection.random(4, 3, generator(2))),
            "last": Lens(layer="2", grid=1, projection=Projection.random(6, 2, generator(3))),
        }
        return Seen(maps, lenses)

    def test_named_features(self, maps):
        found = self.seen(maps)(images())
        shapes = {name: tuple(each.shape) for name, each in found.items()}
        assert shapes == {"pixels": (6, 5), "first": (6, 64, 3), "last": (6, 2)}
        layers = maps(to_float(images()))
        lens = self.seen(maps).lenses["last"]
        torch.testing.assert_close(found["last"], lens.projection(layers["2"].mean((2, 3))))

    def test_bytes_and_numbers_are_the_same_images(self, maps):
        torch.testing.assert_close(
            dict(self.seen(maps)(images())), dict(self.seen(maps)(to_float(images())))
        )
        assert seen_maps(maps, images())[IMAGE].equal(to_float(images()))

    def test_gradients_reach_the_images(self, maps):
        pixels = to_float(images()).requires_grad_()
        sum(each.sum() for each in self.seen(maps)(pixels).values()).backward()
        assert pixels.grad.flatten(1).any(1).all()

    def test_what_is_taken_of_public_images_does_not_depend_on_batches(self, maps):
        lens = Lens(layer="2", grid=2)
        whole = taken(maps, lens, [images()])
        assert whole.shape == (6, 6 * 4)
        assert not whole.requires_grad
        torch.testing.assert_close(taken(maps, lens, images().split(4)), whole)
