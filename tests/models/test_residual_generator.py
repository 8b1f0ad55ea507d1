"""Sizes of the residual generator; what holds for every generator is in test_generator."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privet.errors import ConfigError
from privet.models import ResidualGenerator, UpsampledConv


def kernels(network, side):
    return [
        layer
        for layer in network.modules()
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (side, side)
    ]


@pytest.mark.parametrize(("image_size", "blocks"), [(32, 3), (64, 4)])
def test_blocks_and_layers(image_size, blocks):
    """DP-MEPF, appendix B.1: 3 blocks, 8 layers with the first, and another block for 64×64."""
    with torch.device("meta"):
        network = ResidualGenerator(10, image_size=image_size, width=64)
    assert len(kernels(network, 1)) == blocks
    assert 1 + len(kernels(network, 3)) == 2 * blocks + 2
    widths = [layer.out_channels for layer in kernels(network, 1)]
    assert widths == [512, 256, 128, 64][4 - blocks :]
    assert network.stem.out_features == 16 * 64 * 2**blocks


@pytest.mark.parametrize(("channels", "image_size"), [(3, 32), (1, 32), (3, 64)])
def test_shapes(channels, image_size):
    network = ResidualGenerator(4, channels, image_size=image_size, latent=5, width=2)
    images = network(torch.randn(3, 5), torch.tensor([0, 1, 3]))
    assert images.shape == (3, channels, image_size, image_size)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (1, 3, 5, 2), (2, 3, 1, 1)], ids=str)
def test_a_transposed_convolution_is_one_after_an_enlargement(shape):
    """Values and slopes."""
    torch.manual_seed(0)
    layer = UpsampledConv(3, 4).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    fast, plain = layer(x), layer.conv(F.interpolate(x, scale_factor=2, mode="nearest"))
    torch.testing.assert_close(fast, plain)
    leaves = [x, *layer.parameters()]
    slopes = [torch.autograd.grad(each.sin().sum(), leaves) for each in (fast, plain)]
    torch.testing.assert_close(*slopes)


def test_images_are_laid_out_channels_last():
    images = ResidualGenerator(2, latent=3, width=2)(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    assert images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_classes": 0}, "num_classes is 0; give 1 or more"),
        ({"channels": 0}, "channels is 0"),
        ({"latent": 0}, "latent is 0"),
        ({"width": 0}, "width is 0"),
        ({"image_size": 28}, "image_size is 28; give 32 or 64"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ResidualGenerator(**{"num_classes": 10} | settings)
