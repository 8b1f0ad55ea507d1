"""DP-MEPF's features: the formulas, unit norms, gradients."""

import pytest
import torch
from torch import nn

from privet.augment import to_float
from privet.errors import ConfigError
from privet.models import ConvEncoder, FeatureMaps, convolutions
from privet.release.perceptual import PerceptualFeatures, pooled

SHAPE = (8, 8, 3)


def images(count=5):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, *SHAPE), generator=generator, dtype=torch.uint8)


@pytest.fixture
def maps():
    torch.manual_seed(0)
    network = ConvEncoder(3, widths=(4, 6), pooled=(0,))
    return FeatureMaps(network, convolutions(network))


def flat(maps, pixels):
    rows = [each.movedim(1, -1).flatten(1) for each in maps(pixels).values()]
    return torch.cat(rows, 1).double()


def test_the_formulas(maps):
    e = flat(maps, to_float(images()))
    found = PerceptualFeatures(maps, second=True)(images())
    first, squares = e / e.norm(dim=1, keepdim=True), e**2
    torch.testing.assert_close(found["first"].double(), first, atol=1e-6, rtol=1e-5)
    second = squares / squares.norm(dim=1, keepdim=True)
    torch.testing.assert_close(found["second"].double(), second, atol=1e-6, rtol=1e-5)


def test_one_moment_alone(maps):
    assert set(PerceptualFeatures(maps, second=False)(images())) == {"first"}


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e15])
def test_unit_norm_at_any_scale(scale):
    """Squares of squares would leave single precision at both ends."""
    features = PerceptualFeatures(lambda pixels: {"only": scale * pixels}, second=True)
    for each in features(to_float(images())).values():
        torch.testing.assert_close(each.norm(dim=1), torch.ones(5), atol=1e-5, rtol=0)


def test_nothing_seen_is_zero_with_a_finite_slope():
    features = PerceptualFeatures(lambda pixels: {"only": pixels.relu()}, second=True)
    pixels = torch.full((2, 3, 8, 8), -1.0)
    pixels[1] = 0.5
    pixels.requires_grad_()
    found = features(pixels)
    assert not found["first"][0].any()
    assert not found["second"][0].any()
    sum(each.sum() for each in found.values()).backward()
    assert pixels.grad.isfinite().all()


def test_gradients_reach_the_images(maps):
    features = PerceptualFeatures(maps.double(), second=True)
    pixels = to_float(images(1)).double()[:, :, :3, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tuple(features(x).values()), pixels)


def test_an_image_does_not_see_its_batch(maps):
    features = PerceptualFeatures(maps, second=True)
    whole, alone = features(images()), features(images()[2:3])
    for name in whole:
        torch.testing.assert_close(whole[name][2:3], alone[name])


def test_the_size_is_known_from_a_shape(maps):
    features = PerceptualFeatures(maps, second=True)
    assert features.size(SHAPE) == 4 * 64 + 6 * 16
    assert features(images())["second"].shape == (5, features.size(SHAPE))


def test_pooled_maps(maps):
    last = maps.layers[-1]
    e = maps(to_float(images()))[last].mean((2, 3)).double()
    features = pooled(maps, last)
    found = features(images())
    assert features.size(SHAPE) == 6
    for each, expected in ((found["first"], e), (found["second"], e**2)):
        expected = expected / expected.norm(dim=1, keepdim=True)
        torch.testing.assert_close(each.double(), expected, atol=1e-6, rtol=1e-5)


def test_pooled_tokens_and_vectors():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.vector = nn.Flatten(2), nn.Flatten(1)

        def forward(self, pixels):
            return self.vector(self.tokens(pixels).transpose(1, 2))

    maps = FeatureMaps(Tokens(), ["tokens", "vector"])
    assert pooled(maps, "tokens").size(SHAPE) == 64
    assert pooled(maps, "vector").size(SHAPE) == 192


def test_a_layer_that_is_not_there_is_named(maps):
    with pytest.raises(ConfigError, match="no layer 'head': choose among"):
        pooled(maps, "head")
