"""The small encoder whose maps are matched."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models import ConvEncoder


@pytest.fixture
def trained():
    """An encoder whose norms are not the identity."""
    torch.manual_seed(0)
    encoder = ConvEncoder(3, widths=(8, 12, 16), pooled=(0, 2))
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 2.0)
            nn.init.normal_(layer.bias)
    for _ in range(3):
        encoder(2 * torch.randn(8, 3, 16, 16) + 1)
    return encoder


def test_folding_changes_nothing_but_the_norms(trained):
    images = torch.randn(4, 3, 17, 16, requires_grad=True)
    folded = trained.folded()
    trained.eval()
    values = [network(images) for network in (trained, folded)]
    slopes = [torch.autograd.grad(each.square().sum(), images)[0] for each in values]
    torch.testing.assert_close(*values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(*slopes, atol=1e-5, rtol=1e-4)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())


def test_other_norms_stay():
    """GroupNorm depends on the image, so it cannot be folded; it mixes no examples either."""
    encoder = ConvEncoder(1, widths=(4, 6), norm=lambda channels: nn.GroupNorm(2, channels))
    folded = encoder.folded()
    assert sum(isinstance(layer, nn.GroupNorm) for layer in folded.modules()) == 2
    images = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(folded(images), encoder(images))
    torch.testing.assert_close(folded(images)[:1], folded(images[:1]))
    torch.testing.assert_close(folded.last_map(images).mean((2, 3)), folded(images))


def test_folding_leaves_the_encoder_alone(trained):
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    folded = trained.folded()
    assert trained.training
    assert not folded.training
    with torch.no_grad():
        for parameter in folded.parameters():
            parameter.zero_()
    torch.testing.assert_close(dict(trained.state_dict()), before, atol=0, rtol=0)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 9, 5)], ids=str)
def test_one_vector_per_image(shape):
    encoder = ConvEncoder(shape[0], widths=(4, 6, 5))
    features = encoder(torch.rand(2, *shape) * 2 - 1)
    assert features.shape == (2, encoder.num_features) == (2, 5)


def test_odd_sides_are_rounded_up():
    """28 → 14 → 7 → 4: after the layers 0, 1 and 3."""
    encoder = ConvEncoder(1, widths=(4, 4, 4, 4, 4))
    sides = []
    for layer in encoder.layers:
        layer.register_forward_hook(lambda _, __, output: sides.append(tuple(output.shape[2:])))
    encoder(torch.zeros(2, 1, 28, 27))
    assert sides == [(28, 27), (14, 14), (7, 7), (7, 7), (4, 4)]


def test_a_half_empty_window_is_averaged_over_what_it_holds():
    """Only the centre of the kernel and no bias: a constant image stays constant at the edges."""
    encoder = ConvEncoder(1, widths=(1, 1), pooled=(0,), activation=nn.Identity).eval()
    maps = []
    encoder.layers[1].register_forward_pre_hook(lambda _, inputs: maps.append(inputs[0]))
    with torch.no_grad():
        encoder.layers[0][0].weight.zero_()[:, :, 1, 1] = 1
        encoder.layers[0][1].eps = 0.0
        encoder(torch.ones(1, 1, 5, 7))
    torch.testing.assert_close(maps[0], torch.ones(1, 1, 3, 4))


def test_layers_by_default():
    encoder = ConvEncoder()
    kinds = [type(layer) for layer in encoder.modules()]
    widths = [layer.out_channels for layer in encoder.modules() if isinstance(layer, nn.Conv2d)]
    assert widths == [32, 64, 128, 128, 256]
    assert kinds.count(nn.SiLU) == kinds.count(nn.BatchNorm2d) == 5
    assert encoder.num_features == 256


def test_activation_is_used():
    kinds = [type(layer) for layer in ConvEncoder(widths=(4,), activation=nn.ELU).modules()]
    assert nn.ELU in kinds
    assert nn.SiLU not in kinds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 0}, "channels is 0; give 1 or more"),
        ({"widths": (8, 0)}, "width_1 is 0; give 1 or more"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ConvEncoder(**settings)
