"""Views of an image, against the naive way to make each of them."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare

from privet.augment import CropFlip
from privet.errors import ConfigError

IDENTITY = CropFlip(padding=0, flip=False)


def seed(number=0):
    return torch.Generator().manual_seed(number)


def noise(*shape):
    """Images in which every window differs from every other."""
    return torch.rand(shape, generator=seed(99)) + 0.5


def naive_views(image, padding, flip, mode):
    """Every view that may be made, by (mirrored, down, right)."""
    padded = np.pad(image.numpy(), ((0, 0), (padding, padding), (padding, padding)), mode=mode)
    _, height, width = image.shape
    views = {}
    for mirrored in range(1 + flip):
        source = padded[:, :, ::-1] if mirrored else padded
        for down in range(2 * padding + 1):
            for right in range(2 * padding + 1):
                view = source[:, down : down + height, right : right + width]
                views[np.ascontiguousarray(view).tobytes()] = (mirrored, down, right)
    return views


@pytest.mark.parametrize("mode", ["reflect", "constant"])
@pytest.mark.parametrize(("padding", "flip"), [(2, True), (3, False), (0, True)])
def test_every_view_is_one_of_its_own_image_and_all_are_equally_likely(padding, flip, mode):
    images = noise(3, 2, 9, 8)
    num_views = 1000
    views = CropFlip(padding=padding, flip=flip, mode=mode)(images, num_views, seed())
    assert views.shape == (3 * num_views, 2, 9, 8)
    for image, own in zip(images, views.split(num_views), strict=True):
        possible = naive_views(image, padding, flip, mode)
        kinds = list(possible.values())
        assert len(kinds) == (1 + flip) * (2 * padding + 1) ** 2
        drawn = [kinds.index(possible[view.numpy().tobytes()]) for view in own]
        assert chisquare(np.bincount(drawn, minlength=len(kinds))).pvalue > 1e-4


def test_nothing_to_do_is_plain_repeats():
    images = noise(3, 1, 4, 4)
    assert IDENTITY(images, 1, seed()) is images
    repeats = IDENTITY(images, 2, seed())
    assert torch.equal(repeats, images[[0, 0, 1, 1, 2, 2]])


@pytest.mark.parametrize("cutout", [1, 2, 3, 6])
def test_cutout_is_a_square_around_any_pixel(cutout):
    height, width = 6, 7
    views = CropFlip(padding=0, flip=False, cutout=cutout)(
        torch.ones(1, 2, height, width), 4000, seed()
    )
    possible = []
    for y in range(height):
        for x in range(width):
            hole = np.ones((2, height, width), np.float32)
            top, left = y - cutout // 2, x - cutout // 2
            hole[:, max(top, 0) : top + cutout, max(left, 0) : left + cutout] = 0
            possible.append(hole.tobytes())
    drawn = [possible.index(view.numpy().tobytes()) for view in views]
    assert set(drawn) == {possible.index(hole) for hole in possible}


def test_inverted_views_are_the_negative_and_as_likely():
    images = noise(3, 2, 5, 4)
    num_views = 1000
    views = CropFlip(padding=0, flip=False, invert=True)(images, num_views, seed())
    for image, own in zip(images, views.split(num_views), strict=True):
        inverted = (own == -image).all((1, 2, 3))
        assert torch.equal(inverted, ~(own == image).all((1, 2, 3)))
        assert binomtest(int(inverted.sum()), num_views).pvalue > 1e-4


def test_inversion_is_drawn_apart_from_the_other_changes():
    """Up to its sign, every view is one that is made without; what is cut stays 0."""
    images = noise(4, 1, 6, 6)
    settings = {"padding": 2, "flip": True}
    plain = CropFlip(**settings)(images, 50, seed())
    inverted = CropFlip(**settings, invert=True)(images, 50, seed())
    assert torch.equal(inverted.abs(), plain)
    assert not torch.equal(inverted, plain)
    cut = CropFlip(**settings, invert=True, cutout=3)(images, 50, seed())
    assert ((cut == 0) | (cut == inverted)).all()
    assert (cut == 0).any((1, 2, 3)).all()


def test_cutout_leaves_the_images_alone():
    images = noise(2, 1, 4, 4)
    before = images.clone()
    assert (CropFlip(padding=0, flip=False, cutout=2)(images, 1, seed()) == 0).any()
    assert torch.equal(images, before)


def test_only_the_generator_decides():
    augment = CropFlip(padding=2, cutout=2, invert=True)
    images = noise(5, 3, 8, 8)
    state = torch.random.get_rng_state()
    first = augment(images, 4, seed(1))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(3)
    assert torch.equal(augment(images, 4, seed(1)), first)
    assert not torch.equal(augment(images, 4, seed(2)), first)
    torch.random.set_rng_state(state)


def test_a_view_depends_on_its_own_image_alone():
    augment = CropFlip(padding=2, cutout=2)
    images = noise(3, 1, 8, 8)
    changed = images.clone()
    changed[1] = 7.0
    one, other = augment(images, 4, seed()), augment(changed, 4, seed())
    assert torch.equal(one[:4], other[:4])
    assert torch.equal(one[8:], other[8:])
    assert not torch.equal(one[4:8], other[4:8])


def test_an_empty_batch_has_no_views():
    assert CropFlip(cutout=2)(torch.zeros(0, 3, 8, 8), 4, seed()).shape == (0, 3, 8, 8)


@pytest.mark.parametrize(
    "settings", [{"padding": -1}, {"cutout": -1}, {"mode": "wrap"}], ids=lambda s: next(iter(s))
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} is .*; give"):
        CropFlip(**settings)


def test_what_does_not_fit_the_images_is_refused():
    with pytest.raises(ConfigError, match="padding is 4; give at most 3"):
        CropFlip(padding=4)(torch.zeros(1, 1, 4, 9), 1, seed())
    with pytest.raises(ConfigError, match="cutout is 5; give at most 4"):
        CropFlip(padding=1, cutout=5)(torch.zeros(1, 1, 4, 9), 1, seed())
    with pytest.raises(ConfigError, match="num_views is 0"):
        IDENTITY(torch.zeros(1, 1, 4, 4), 0, seed())
    with pytest.raises(ConfigError, match="shape"):
        IDENTITY(torch.zeros(4, 4), 1, seed())
