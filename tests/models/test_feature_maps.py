"""Maps of chosen layers of a frozen copy."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.models import ConvEncoder, Encoder, FeatureMaps, WideResNet, convolutions


class InPlace(nn.Module):
    """A convolution whose output an activation would overwrite."""

    def __init__(self, inplace=True):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.activation = nn.ReLU(inplace=inplace)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, images):
        return self.head(self.activation(self.conv(images)))


@pytest.fixture
def network():
    """A public network with BatchNorm, left in training mode."""
    torch.manual_seed(0)
    return ConvEncoder(3, widths=(4, 6, 5), pooled=(0, 1)).train()


def pictures(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 2 - 1


def test_maps_of_named_layers_in_the_order_asked_for(network):
    maps = FeatureMaps(network, ["layers.2", "layers.0.0"])(pictures(2, 3, 16, 16))
    assert list(maps) == ["layers.2", "layers.0.0"]
    assert maps["layers.2"].shape == (2, 5, 4, 4)
    assert maps["layers.0.0"].shape == (2, 4, 16, 16)


def test_maps_are_those_of_the_network_in_eval_mode(network):
    images = pictures(2, 3, 16, 16)
    maps = FeatureMaps(network, ["layers.0", "layers.2"])(images)
    network.eval()
    torch.testing.assert_close(maps["layers.0"], network.layers[0](images))
    torch.testing.assert_close(maps["layers.2"].mean((2, 3)), network(images))


def test_an_image_does_not_see_its_batch(network):
    maps = FeatureMaps(network, ["layers.2"])
    images = pictures(5, 3, 16, 16)
    together, alone = maps(images)["layers.2"], maps(images[3:4])["layers.2"]
    torch.testing.assert_close(together[3:4], alone)


def test_one_call_does_not_touch_the_maps_of_another(network):
    maps = FeatureMaps(network, ["layers.2"])
    first = maps(pictures(2, 3, 16, 16))["layers.2"]
    before = first.clone()
    assert maps(torch.zeros(3, 3, 8, 8))["layers.2"].shape == (3, 5, 2, 2)
    assert torch.equal(first, before)


def test_stays_in_eval_mode(network):
    maps = FeatureMaps(network, ["layers.0"])
    nn.Sequential(maps).train()
    assert not any(layer.training for layer in maps.modules())


def test_gradients_reach_the_images_and_not_the_network(network):
    maps = FeatureMaps(network, ["layers.0", "layers.2"])
    images = pictures(2, 3, 16, 16).requires_grad_()
    sum(each.square().sum() for each in maps(images).values()).backward()
    assert images.grad.isfinite().all()
    assert images.grad.abs().sum() > 0
    assert all(each.grad is None for each in maps.parameters())
    assert not any(each.requires_grad for each in maps.parameters())


def test_the_network_given_is_left_alone(network):
    maps = FeatureMaps(network, ["layers.0"])
    assert network.training
    assert all(each.requires_grad for each in network.parameters())
    assert not any(layer._forward_hooks for layer in network.modules())
    images = pictures(2, 3, 16, 16)
    before = maps(images)["layers.0"]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert torch.equal(maps(images)["layers.0"], before)


def test_activations_in_place_do_not_overwrite_a_map():
    torch.manual_seed(0)
    network = InPlace()
    images = pictures(2, 1, 8, 8).requires_grad_()
    maps = FeatureMaps(network, ["conv", "activation", "head"])(images)
    torch.testing.assert_close(maps["conv"], network.conv(images))
    assert (maps["conv"] < 0).any()
    torch.testing.assert_close(maps["activation"], maps["conv"].relu())
    sum(each.sum() for each in maps.values()).backward()
    assert images.grad.isfinite().all()
    assert network.activation.inplace, "the caller's network was changed"


def test_grey_images_for_a_network_of_colours(network):
    maps = FeatureMaps(network, ["layers.0"], channels=3, image_size=20)
    grey = pictures(2, 1, 16, 16)
    assert maps(grey)["layers.0"].shape == (2, 4, 20, 20)
    torch.testing.assert_close(maps(grey), maps(grey.repeat(1, 3, 1, 1)))


def test_unknown_layers_are_refused_with_a_choice(network):
    with pytest.raises(ConfigError, match=r"has no layer 'layer4': choose among layers, layers\.0"):
        FeatureMaps(network, ["layers.0", "layer4"])


def test_a_layer_without_a_tensor_is_refused():
    class Pair(nn.Module):
        def forward(self, images):
            return images, images

    maps = FeatureMaps(nn.Sequential(Pair()), ["0"])
    with pytest.raises(ConfigError, match=r"Layer '0' .*returns no tensor"):
        maps(torch.zeros(1, 1, 4, 4))


def test_convolutions_are_those_larger_than_one_by_one():
    """DP-MEPF, appendix D."""
    network = nn.Sequential(
        *(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.Conv2d(2, 2, (1, 3))),
        *(nn.Conv1d(2, 2, 3), nn.Sequential(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 5))),
    )
    assert convolutions(network) == ["1", "3", "5.1"]


def test_convolutions_are_layers_that_may_be_asked_for():
    network = WideResNet(10, 1, 5, norm="batch")
    names = convolutions(network)
    assert len(names) == 7
    maps = FeatureMaps(network, names)(pictures(1, 3, 32, 32))
    assert list(maps) == names
    assert all(each.ndim == 4 for each in maps.values())


def test_an_encoder_within_is_tried_with_the_rest_and_not_noted(network):
    """Its own trial on random images would be what the layers are noted to have seen."""
    encoder = Encoder(network, num_features=network(torch.zeros(1, 3, 8, 8)).shape[1])
    layers = [f"network.{name}" for name in convolutions(network)]
    images = torch.rand(5, 3, 8, 8)
    found = FeatureMaps(encoder, layers)(images)
    plain = FeatureMaps(network, convolutions(network))(images)
    for ours, theirs in zip(found.values(), plain.values(), strict=True):
        torch.testing.assert_close(ours, theirs)
