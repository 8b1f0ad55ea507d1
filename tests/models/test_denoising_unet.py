"""The U-Net inside diffusion models: shapes, what it is told, what it refuses."""

import pytest
import torch

from privet.errors import ConfigError
from privet.models import DenoisingUNet

SMALL = {"widths": (8, 16), "attention": ()}


def unet(**settings):
    torch.manual_seed(0)
    made = DenoisingUNet(3, 2, **{"image_size": (8, 8), **SMALL, **settings})
    for parameter in made.network.conv_out.parameters():  # which starts at zero
        torch.nn.init.normal_(parameter)
    return made.eval()


def asked(network, images, noise=0.1, label=0, augmentation=None):
    count = len(images)
    labels = torch.full((count,), label)
    with torch.no_grad():
        return network(images, torch.full((count,), noise), labels, augmentation)


def test_it_begins_by_saying_nothing():
    network = DenoisingUNet(3, 2, image_size=(8, 8), **SMALL)
    assert not asked(network, torch.randn(2, 2, 8, 8)).any()


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (28, 28), (5, 12)])
def test_sides_that_cannot_be_halved_are_padded_and_cropped(size):
    network = unet(image_size=size, widths=(8, 8, 16), attention=(-1,))
    assert asked(network, torch.randn(2, 2, *size)).shape == (2, 2, *size)


def test_it_hears_all_that_it_is_told():
    network, images = unet(augmentations=4), torch.randn(1, 2, 8, 8)
    plain = asked(network, images)
    changed = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    assert not torch.allclose(plain, asked(network, images, noise=0.9), atol=1e-4)
    assert not torch.allclose(plain, asked(network, images, label=1), atol=1e-4)
    assert not torch.allclose(plain, asked(network, images, augmentation=changed), atol=1e-4)
    torch.testing.assert_close(plain, asked(network, images, augmentation=0 * changed))


def test_an_image_does_not_see_its_batch():
    network, images = unet(attention=(-1,)), torch.randn(4, 2, 8, 8)
    torch.testing.assert_close(asked(network, images)[2:3], asked(network, images[2:3]))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"widths": ()}, "widths"), ({"attention": (5,)}, "attention"), ({"blocks": 0}, "blocks")],
)
def test_settings_are_checked(wrong, match):
    with pytest.raises(ConfigError, match=match):
        unet(**wrong)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "diffusers", None)
    with pytest.raises(ConfigError, match=r"privet\[diffusion\]"):
        unet()
