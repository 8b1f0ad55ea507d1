"""Pixels that are optimised to match a release."""

import pytest
import torch

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.release import Cleaning
from privet.synthesis import GaussianMatching, PixelOptimisation, optimised
from tests.synthesis.embeddings import CLASSES, embedding, images, labels

PLAIN = CropCurriculum(smallest=1.0, flip=False)


def matching():
    of = embedding()
    with torch.no_grad():
        found, _ = of.moments(images(60, seed=9, bright=0.4), labels(60))
    target = {"z": Cleaning(least_jitter=0.1)(found["z"], torch.zeros(CLASSES))}
    return GaussianMatching(of, target, clip_norm=None)


def run(config, start=None, seed=0, loss=None, on_step=None):
    generator = torch.Generator().manual_seed(seed)
    start = images() if start is None else start
    return optimised(
        start, labels(), loss or matching(), config, generator=generator, on_step=on_step
    )


def test_it_lowers_the_distance():
    losses = []
    config = PixelOptimisation(iterations=60, learning_rate=0.05, view=PLAIN)
    run(config, on_step=lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 61))
    assert losses[-1][1] < 0.3 * losses[0][1]


def test_views_and_so_images_depend_on_the_generator_alone():
    config = PixelOptimisation(iterations=4)
    first = run(config)
    torch.manual_seed(9)
    assert torch.equal(first, run(config))
    assert not torch.equal(first, run(config, seed=1))


def test_images_stay_in_their_range_and_the_start_as_it_was():
    start = 5 * images()
    before = start.clone()
    found = run(PixelOptimisation(iterations=3), start=start)
    assert found.abs().max() <= 1
    assert not found.requires_grad
    assert torch.equal(start, before)


def test_what_lies_outside_the_range_is_drawn_back():
    """By its squared distance to the range, whatever the loss says."""

    def nothing(views, labels):
        return 0 * views.sum()

    heard = []
    start = torch.full((20, 1, 4, 4), 1.5)
    config = PixelOptimisation(iterations=30, learning_rate=0.05, view=PLAIN, range_penalty=2.0)
    run(config, start=start, loss=nothing, on_step=lambda _, loss: heard.append(loss))
    assert heard[0] == pytest.approx(2.0 * 0.25)
    assert heard[-1] < 0.05
    free = PixelOptimisation(iterations=1, learning_rate=0.05, view=PLAIN, range_penalty=0.0)
    run(free, start=start, loss=nothing, on_step=lambda _, loss: heard.append(loss))
    assert heard[-1] == 0


def test_what_is_not_finite_is_refused():
    with pytest.raises(ConfigError, match="distance is inf in step 0: lower the learning rate"):
        run(PixelOptimisation(iterations=2), loss=lambda views, _: views.sum() + torch.inf)


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"learning_rate": 0.0}, {"range_penalty": -1.0}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        PixelOptimisation(**wrong)
