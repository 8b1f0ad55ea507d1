"""Random Fourier features against the kernel that they stand for."""

import math

import pytest
import torch

from privet.augment import to_float
from privet.errors import ConfigError
from privet.release.fourier import FourierFeatures, median_pixel_distance

SHAPE = (6, 5, 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count=12, seed=0):
    return torch.randint(256, (count, *SHAPE), generator=generator(seed), dtype=torch.uint8)


def made(size=64, length_scale=3.0):
    return FourierFeatures.random(SHAPE, size, length_scale, generator(7))


@pytest.mark.parametrize("length_scale", [1.5, 3.0, 6.0])
def test_products_approximate_the_kernel(length_scale):
    """Within four deviations of an average over 20,000 frequencies; other scales are further."""
    pixels = images().double().flatten(1) / 255
    squares = torch.cdist(pixels, pixels).square()
    features = made(40_000, length_scale)(images())["fourier"].double()
    found = features @ features.T
    gap = (found - torch.exp(-squares / (2 * length_scale**2))).abs().max()
    assert gap < 4 / math.sqrt(20_000)
    for wrong in (2 / 3, 3 / 2):
        other = torch.exp(-squares / (2 * (wrong * length_scale) ** 2))
        assert (found - other).abs().max() > 2 * gap


@pytest.mark.parametrize("size", [2, 64, 5000])
@pytest.mark.parametrize("length_scale", [1e-3, 1.0, 1e3])
def test_unit_norm(size, length_scale):
    features = made(size, length_scale)
    found = features(images())["fourier"]
    assert found.shape == (12, size)
    assert features.size == size
    torch.testing.assert_close(found.norm(dim=1), torch.ones(12), atol=1e-5, rtol=0)


def test_bytes_and_numbers_are_the_same_images():
    whole = made()(images())["fourier"]
    torch.testing.assert_close(made()(to_float(images()))["fourier"], whole)


def test_gradients_reach_the_images():
    pixels = to_float(images(2)).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: made(8)(x)["fourier"], pixels)


def test_the_generator_decides():
    assert made().frequencies.equal(made().frequencies)
    other = FourierFeatures.random(SHAPE, 64, 3.0, generator(8))
    assert not made().frequencies.equal(other.frequencies)


def test_median_distance():
    """Three points on a line: distances 1, 2 and 3 steps of 0.1 in each of 90 pixels."""
    points = torch.tensor([0.0, 0.1, 0.3])[:, None, None, None].expand(3, 3, 6, 5) * 2 - 1
    assert median_pixel_distance(points) == pytest.approx(0.2 * math.sqrt(90))
    bytes_apart = median_pixel_distance(images(30))
    assert bytes_apart == pytest.approx(math.sqrt(90 / 6), rel=0.1)  # (u − v)² has mean 1/6


def test_median_distance_of_many_images_takes_some():
    many = images(2500)
    assert median_pixel_distance(many) == pytest.approx(median_pixel_distance(many[::3]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((7, 1.0), "an even number, not 7"),
        ((0, 1.0), "an even number, not 0"),
        ((8, 0.0), "length scale must be positive"),
        ((8, math.nan), "length scale must be positive"),
    ],
)
def test_what_makes_no_features_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        made(*settings)


def test_other_images_are_refused():
    with pytest.raises(ConfigError, match="Images have 27 pixels; these features were made for 90"):
        made()(torch.zeros(2, 3, 3, 3))
    with pytest.raises(ConfigError, match="two public images"):
        median_pixel_distance(images(1))
