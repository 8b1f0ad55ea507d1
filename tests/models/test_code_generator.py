"""Sizes of DP-MERF's generator; what holds for every generator is in test_generator."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models.code_generator import CodeGenerator


def test_published_layers():
    """DP-MERF on MNIST: code 5, hidden 200, channels 16 and 8, kernels 5 and 5."""
    generator = CodeGenerator(10)
    linear = [each for each in generator.modules() if isinstance(each, nn.Linear)]
    conv = [each for each in generator.modules() if isinstance(each, nn.Conv2d)]
    assert [(each.in_features, each.out_features) for each in linear] == [(15, 200), (200, 784)]
    assert [(each.in_channels, each.out_channels) for each in conv] == [(16, 8), (8, 1)]
    assert {each.kernel_size for each in conv} == {(5, 5)}
    assert sum(each.numel() for each in generator.parameters()) == 166_161


def test_a_sigmoid_stretched_to_both_signs():
    generator = CodeGenerator(10).eval()
    latent, labels = 5 * torch.randn(10, 5), torch.arange(10)
    inputs = torch.cat([latent, torch.eye(10)], 1)
    expected = 2 * torch.sigmoid(generator.body(inputs)) - 1
    torch.testing.assert_close(generator(latent, labels), expected)


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (2, 4)])
def test_shapes(channels, side):
    generator = CodeGenerator(3, channels, image_size=side, latent=2, hidden=6, widths=(4, 3))
    images = generator(torch.randn(2, 2), torch.tensor([0, 2]))
    assert images.shape == (2, channels, side, side)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_classes": 0}, "num_classes is 0; give 1 or more"),
        ({"channels": 0}, "channels is 0"),
        ({"latent": 0}, "latent is 0"),
        ({"hidden": 0}, "hidden is 0"),
        ({"widths": (16, 0)}, "width_1 is 0"),
        ({"image_size": 0}, "image_size is 0; give 1 or more"),
        ({"image_size": 30}, "image_size is 30; give a multiple of 4"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        CodeGenerator(**{"num_classes": 10} | settings)
