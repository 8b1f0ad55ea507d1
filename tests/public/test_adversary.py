"""Adversarial views: within their radius, and worse than what they come from."""

import pytest
import torch
import torch.nn.functional as F

from privet.errors import ConfigError
from privet.public.adversary import Adversary
from tests.public.digits import network, seed


def attacked(adversary):
    images = torch.rand(20, 1, 8, 8, generator=seed()) * 2 - 1
    model, labels = network(), torch.arange(20) % 10
    found = adversary(images, lambda x: F.cross_entropy(model(x), labels), seed(1))
    losses = [F.cross_entropy(model(x), labels).item() for x in (images, found)]
    return images, found, losses


def test_views_stay_within_the_radius_and_are_worse():
    images, found, (before, after) = attacked(Adversary(radius=8 / 255))
    assert float((found - images).abs().max()) <= 2 * 8 / 255 + 1e-6
    assert float(found.abs().max()) <= 1
    assert not found.requires_grad
    assert after > before + 0.05


def test_a_radius_of_zero_changes_nothing():
    images, found, _ = attacked(Adversary(radius=0))
    torch.testing.assert_close(found, images)


@pytest.mark.parametrize("wrong", [{"radius": -1}, {"steps": 0}, {"stride": 0}])
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        Adversary(**wrong)
