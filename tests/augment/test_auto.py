"""AutoAugment's policies: views of the same shape and range, from torch's generator alone."""

import pytest
import torch

from privet.augment import auto_augmented


@pytest.mark.parametrize("channels", [1, 3])
def test_views_of_images(channels):
    images = torch.rand(12, channels, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1
    torch.manual_seed(0)
    views = auto_augmented(images)
    assert views.shape == images.shape
    assert views.isfinite().all()
    assert float(views.abs().max()) <= 1 + 1e-5
    assert not torch.allclose(views, images, atol=1e-2)
    torch.manual_seed(0)
    assert torch.equal(auto_augmented(images), views)
    assert not torch.equal(auto_augmented(images), views)


def test_images_are_not_all_treated_alike():
    image = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1
    torch.manual_seed(0)
    views = auto_augmented(image.expand(40, -1, -1, -1))
    assert len(views.flatten(1).unique(dim=0)) > 6
