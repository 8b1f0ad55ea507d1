"""Shapes and sizes of WideResNet; what holds for every classifier is in test_classifiers."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models import StandardisedConv2d, WideResNet


def size(network):
    return sum(parameter.numel() for parameter in network.parameters())


def count(network, kind):
    return sum(isinstance(layer, kind) for layer in network.modules())


@pytest.mark.parametrize(
    ("depth", "parameters", "printed"), [(16, 2_748_890, 2.74), (40, 8_949_210, 8.94)]
)
def test_published_sizes(depth, parameters, printed):
    """2.74M and 8.94M, cut off rather than rounded.

    Table 5 of Improving Private Training via In-Distribution Public Data Synthesis and
    Generalization.
    """
    with torch.device("meta"):
        networks = [WideResNet(depth, 4, 10, norm=norm) for norm in ("group", "batch")]
    assert [size(network) for network in networks] == [parameters] * 2
    assert parameters // 10_000 / 100 == printed


def test_gain_and_bias_of_every_filter():
    plain, affine = WideResNet(10, 1, 10), WideResNet(10, 1, 10, conv_affine=True)
    filters = sum(c.out_channels for c in plain.modules() if isinstance(c, StandardisedConv2d))
    assert size(affine) - size(plain) == 2 * filters


def test_gain_and_bias_change_nothing_at_the_start():
    plain, affine = WideResNet(10, 1, 10), WideResNet(10, 1, 10, conv_affine=True)
    affine.load_state_dict(plain.state_dict(), strict=False)
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(affine(images), plain(images))


def test_group_norm_network_has_standardised_convolutions_only():
    network = WideResNet(16, 2, 10)
    assert count(network, nn.GroupNorm) == 13
    assert count(network, StandardisedConv2d) == count(network, nn.Conv2d) == 16
    assert count(network, nn.BatchNorm2d) == 0


def test_batch_norm_network():
    """SPS, appendix D.2: WRN-22-8 "contains 19 BatchNorm layers"."""
    with torch.device("meta"):
        network = WideResNet(22, 8, 1000, norm="batch", activation=nn.SiLU)
    assert count(network, nn.BatchNorm2d) == count(network, nn.SiLU) == 19
    assert count(network, StandardisedConv2d) == count(network, nn.ReLU) == 0


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_batch_norm_network_learns(shape):
    network = WideResNet(10, 1, 5, shape[0], norm="batch")
    network(torch.randn(4, *shape)).logsumexp(1).sum().backward()
    assert all(each.grad.isfinite().all() for each in network.parameters())


def test_features_come_before_the_classifier():
    network = WideResNet(10, 2, 5)
    images = torch.randn(2, 3, 32, 32)
    features = network.features(images)
    assert features.shape == (2, 128)
    torch.testing.assert_close(network.classifier(features), network(images))


def test_signal_keeps_its_scale():
    """Logits of fresh networks are neither tiny nor huge, so that one clip norm suits many."""
    torch.manual_seed(0)
    for depth in (10, 28):
        logits = WideResNet(depth, 1, 10)(torch.randn(16, 3, 32, 32))
        assert 0.05 < logits.std() < 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 18}, r"depth is 18; give 6n \+ 4"),
        ({"depth": 4}, "depth is 4"),
        ({"width": 0}, "width is 0; give 1 or more"),
        ({"num_classes": 0}, "num_classes is 0"),
        ({"channels": 0}, "channels is 0"),
        ({"groups": 32}, "groups is 32; give a divisor of 16"),
        ({"groups": 0}, "groups is 0"),
        ({"norm": "layer"}, "norm is 'layer'; give 'group' or 'batch'"),
        ({"norm": "batch", "conv_affine": True}, "conv_affine is for standardised filters"),
    ],
)
def test_what_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        WideResNet(**{"depth": 10, "width": 1, "num_classes": 10} | settings)
