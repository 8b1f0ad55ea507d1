"""EDM from public images to public images: the whole recipe, small."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.public import DiffusionTraining, Heun, PublicRows
from privet.recipes.public_edm import PublicEdm, edm
from privet.recipes.releases import NoMemory

TINY = PublicEdm(
    widths=(8, 8),
    training=DiffusionTraining(iterations=3, batch_size=8),
    sampler=Heun(steps=3),
    guiding=10,
    guide_iterations=2,
    at_once=5,
)


def rows(count=20, classes=3):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 6, 8, 1), generator=generator, dtype=torch.uint8)
    return PublicRows(images, torch.arange(count) % classes)


class Remembered(NoMemory):
    """Counts what is made."""

    def __init__(self):
        self.made, self.kept = [], {}

    def once(self, name, make):
        if name not in self.kept:
            self.made.append(name)
            self.kept[name] = {key: each.clone() for key, each in make().items()}
        return self.kept[name]


@pytest.mark.parametrize("guidance", [0.0, 2.0])
def test_images_by_number_and_trainings_that_are_not_done_again(guidance):
    memory, settings = Remembered(), replace(TINY, guidance=guidance)
    steps = []

    def progress(name):
        return lambda done, total: steps.append((name, done, total))

    drawn = edm(rows(), num_classes=3, settings=settings, memory=memory, progress=progress)
    images, labels = drawn.take(8)
    assert images.shape == (8, 6, 8, 1)
    assert images.dtype == np.uint8
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    expected = ["diffusion", "classifier", "discriminator"] if guidance else ["diffusion"]
    assert memory.made == expected
    assert steps[:3] == [("diffusion", 1, 3), ("diffusion", 2, 3), ("diffusion", 3, 3)]

    again = edm(rows(), num_classes=3, settings=settings, memory=memory)
    assert memory.made == expected
    assert np.array_equal(again.batch(1)[0], drawn.batch(1)[0])


def test_another_seed_draws_other_images():
    one = edm(rows(), num_classes=3, settings=TINY).take(3)[0]
    other = edm(rows(), num_classes=3, settings=replace(TINY, seed=1)).take(3)[0]
    assert not np.array_equal(one, other)


def test_it_learns_what_images_are_like():
    """Of light and dark images come light and dark ones, even as they are."""
    shades = torch.tensor([40, 210], dtype=torch.uint8).repeat(20)
    images = shades[:, None, None, None].expand(40, 8, 8, 1).contiguous()
    settings = replace(
        TINY,
        training=DiffusionTraining(
            iterations=200, batch_size=32, learning_rate=1e-2, augment=None, half_life=200
        ),
        dropout=0.0,
        sampler=Heun(steps=8, most=2.0),  # higher levels are rare in training, and take longer
    )
    drawn = edm(PublicRows(images, torch.arange(40) % 2), num_classes=2, settings=settings)
    shade = drawn.take(20)[0].reshape(20, -1).astype(float)
    assert np.median(shade.std(1)) < 25
    near = np.minimum(abs(shade.mean(1) - 40), abs(shade.mean(1) - 210))
    assert np.median(near) < 25


@pytest.mark.parametrize(
    ("public", "match"),
    [
        (rows(classes=2), "class 2"),
        (rows(classes=4), "beyond the 3 classes"),
        (PublicRows(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)), "features"),
    ],
)
def test_public_images_are_checked(public, match):
    with pytest.raises(DataError, match=match):
        edm(public, num_classes=3, settings=TINY)


@pytest.mark.parametrize("wrong", [{"guidance": -1}, {"guiding": 0}, {"at_once": 0}])
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        PublicEdm(**wrong)


def test_published_settings():
    """IDS, C.2 and Table 7 of EDM: 200 million images in batches of 512."""
    settings = PublicEdm.as_published()
    assert (settings.training.batch_size, settings.training.iterations) == (512, 390_625)
    assert settings.training.learning_rate == 1e-3
    assert (settings.sampler.steps, settings.sampler.least, settings.sampler.most) == (
        18,
        0.002,
        80,
    )
