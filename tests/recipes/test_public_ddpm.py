"""DDPM from public images to public images: the whole recipe, small."""

import numpy as np
import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.public import Ancestral, DiffusionTraining
from privet.recipes.public_ddpm import PublicDdpm, ddpm
from tests.recipes.test_public_edm import Remembered, rows

TINY = PublicDdpm(
    widths=(8, 8),
    training=DiffusionTraining(iterations=3, batch_size=8, augment=None),
    sampler=Ancestral(steps=3),
    at_once=5,
)


def test_images_by_number_and_a_training_that_is_not_done_again():
    memory = Remembered()
    images, labels = ddpm(rows(), num_classes=3, settings=TINY, memory=memory).take(8)
    assert images.shape == (8, 6, 8, 1)
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    again, _ = ddpm(rows(), num_classes=3, settings=TINY, memory=memory).take(5)
    assert np.array_equal(again, images[:5])
    assert memory.made == ["diffusion"]


def test_it_learns_what_images_are_like():
    """Of white and of black images, more training draws the right ones."""
    pixels = torch.tensor([0, 255], dtype=torch.uint8).repeat(20)
    images = pixels[:, None, None, None].expand(40, 4, 4, 1).contiguous()
    public = type(rows())(images, torch.arange(40) % 2)
    lessons = DiffusionTraining(iterations=150, batch_size=32, learning_rate=3e-3, augment=None)
    settings = PublicDdpm(
        widths=(16,), dropout=0.0, training=lessons, sampler=Ancestral(steps=20), at_once=20
    )
    drawn, labels = ddpm(public, num_classes=2, settings=settings).take(20)
    means = drawn.reshape(20, -1).mean(1)
    assert means[labels == 0].mean() + 100 < means[labels == 1].mean()


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="at_once and blocks"):
        PublicDdpm(at_once=0)
    with pytest.raises(DataError, match="No public image is of class 3"):
        ddpm(rows(), num_classes=4, settings=TINY)
