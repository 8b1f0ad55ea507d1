"""AutoAugment's policies: views of the same shape and range, from one generator alone."""

import pytest
import torch

from privet.augment import auto_augmented
from privet.keys import keyed


@pytest.mark.parametrize("channels", [1, 3])
def test_views_of_images(channels):
    images = torch.rand(12, channels, 28, 28, generator=keyed(0)) * 2 - 1
    generator, before = keyed(1), torch.random.get_rng_state()
    views = auto_augmented(images, generator)
    assert views.shape == images.shape
    assert views.isfinite().all()
    assert float(views.abs().max()) <= 1 + 1e-5
    assert not torch.allclose(views, images, atol=1e-2)
    assert torch.equal(auto_augmented(images, keyed(1)), views)
    assert not torch.equal(auto_augmented(images, generator), views)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_images_are_not_all_treated_alike():
    image = torch.rand(1, 3, 16, 16, generator=keyed(0)) * 2 - 1
    views = auto_augmented(image.expand(40, -1, -1, -1), keyed(0))
    assert len(views.flatten(1).unique(dim=0)) > 6
