"""The formula of StandardisedConv2d against its plainest form."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from privet.models import StandardisedConv2d


def naive(layer):
    """One output channel at a time, as the docstring has it."""
    filters = []
    for weight, gain in zip(layer.weight, layer.gain, strict=True):
        var = ((weight - weight.mean()) ** 2).mean()
        largest = torch.max(var * weight.numel(), torch.tensor(1e-4, dtype=weight.dtype))
        filters.append(gain * (weight - weight.mean()) / largest.sqrt())
    return torch.stack(filters)


@pytest.fixture
def layer():
    torch.manual_seed(0)
    layer = StandardisedConv2d(3, 5, 3, stride=2, padding=1).double()
    with torch.no_grad():
        layer.weight += 0.7
        layer.gain.uniform_(-1, 2)
        layer.bias.normal_()
        layer.weight[1] = layer.weight[1] * 1e-4 + 0.3  # below the floor
        layer.weight[2] = 0.2  # constant
    return layer


def test_weight_equals_the_formula(layer):
    torch.testing.assert_close(layer.standardised_weight(), naive(layer))


def test_gradients_equal_those_of_the_formula(layer):
    parameters = (layer.weight, layer.gain)
    pull = torch.randn(5, 3, 3, 3, dtype=torch.float64)
    ours = torch.autograd.grad(layer.standardised_weight(), parameters, pull)
    theirs = torch.autograd.grad(naive(layer), parameters, pull)
    torch.testing.assert_close(ours, theirs)


def test_forward_convolves_with_it(layer):
    images = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    expected = F.conv2d(images, naive(layer), layer.bias, stride=2, padding=1)
    torch.testing.assert_close(layer(images), expected)


def test_a_fresh_filter_has_mean_zero_and_norm_one():
    weight = StandardisedConv2d(8, 4, 3).standardised_weight().flatten(1)
    torch.testing.assert_close(weight.mean(1), torch.zeros(4), atol=1e-6, rtol=0)
    torch.testing.assert_close(weight.norm(dim=1), torch.ones(4))


def test_without_gain_or_bias_only_the_weight_is_learned():
    layer = StandardisedConv2d(3, 5, 3, gain=False, bias=False)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert list(layer.state_dict()) == ["weight"]
    assert layer.gain.tolist() == [1.0] * 5
    assert layer.double().gain.dtype == torch.float64


def test_vmap_gives_per_example_gradients(layer):
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    images = torch.randn(2, 3, 5, 5, dtype=torch.float64)

    def loss(parameters, image):
        return functional_call(layer, parameters, (image[None],)).square().sum()

    rows = vmap(grad(loss), (None, 0))(parameters, images)
    second = torch.autograd.grad(layer(images[1:]).square().sum(), list(layer.parameters()))
    torch.testing.assert_close([rows[name][1] for name in parameters], list(second))
