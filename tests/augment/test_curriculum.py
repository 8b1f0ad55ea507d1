"""Crops for pixel optimisation, against sampling on a grid and against their own coordinates."""

import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from privet.augment.curriculum import CropCurriculum
from privet.errors import ConfigError


def seed(number=0):
    return torch.Generator().manual_seed(number)


def noise(*shape):
    return torch.randn(shape, generator=seed(99), dtype=torch.float64)


def ramps(count, height=32, width=32):
    """Images whose two channels are the row and the column of each pixel."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=torch.float64),
        torch.arange(width, dtype=torch.float64),
        indexing="ij",
    )
    return torch.stack([rows, columns]).expand(count, -1, -1, -1)


def windows(views):
    """First row, height, first column, width and mirroring of crops of ramps, in pixels."""
    height, width = views.shape[2:]
    rows, columns = views[:, 0, :, width // 2], views[:, 1, height // 2]
    down = (rows[:, -3] - rows[:, 2]) / (height - 5)
    right = (columns[:, -3] - columns[:, 2]) / (width - 5)
    top = rows[:, 2] - 2.5 * down + 0.5
    left = columns[:, 2] - 2.5 * right + 0.5 + (width * right).clamp(max=0)
    return top, down * height, left, right.abs() * width, right < 0


def test_whole_images_at_the_start():
    images = noise(50, 3, 9, 8)
    assert torch.equal(CropCurriculum(flip=False)(images, 0.0, seed()), images)
    views = CropCurriculum()(images, 0.0, seed())
    mirrored = [
        torch.equal(view, image.flip(-1)) for view, image in zip(views, images, strict=True)
    ]
    same = [torch.equal(view, image) for view, image in zip(views, images, strict=True)]
    assert all(one != other for one, other in zip(mirrored, same, strict=True))
    assert 10 < sum(mirrored) < 40


def test_nothing_smaller_than_the_image_is_whole_images_throughout():
    images = noise(5, 1, 9, 8)
    for progress in (0.0, 0.5, 1.0):
        assert torch.equal(CropCurriculum(smallest=1, flip=False)(images, progress, seed()), images)


@pytest.mark.parametrize("shape", [(2, 32, 32), (1, 9, 14)], ids=str)
def test_views_are_those_of_grid_sample(shape):
    """Bilinear, pixels as squares, the edge repeated; values and slopes."""
    images = noise(40, *shape).requires_grad_()
    views = CropCurriculum()(images, 1.0, seed(3))
    height, width = shape[1:]
    top, tall, left, wide, mirrored = windows(
        CropCurriculum()(ramps(40, height, width), 1.0, seed(3))
    )
    across = torch.where(mirrored, -wide, wide) / width
    theta = torch.zeros(40, 2, 3, dtype=torch.float64)
    theta[:, 0, 0], theta[:, 0, 2] = across, (2 * left + wide) / width - 1
    theta[:, 1, 1], theta[:, 1, 2] = tall / height, (2 * top + tall) / height - 1
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    expected = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(views, expected, atol=1e-4, rtol=0)
    slopes = [torch.autograd.grad(each.sin().sum(), images)[0] for each in (views, expected)]
    torch.testing.assert_close(*slopes, atol=1e-4, rtol=1e-4)
    assert 0 < mirrored.sum() < 40


@pytest.mark.parametrize(("smallest", "progress", "least"), [(0.3, 1, 0.3), (0.3, 0.5, 0.65)])
def test_areas_and_places_are_uniform(smallest, progress, least):
    curriculum = CropCurriculum(smallest=smallest)
    top, height, left, width, mirrored = windows(curriculum(ramps(4000), progress, seed()))
    area = height * width / 32**2
    smaller = (height < 31) & (width < 31)
    places = [(top / (32 - height))[smaller], (left / (32 - width))[smaller]]
    assert stats.kstest(area, stats.uniform(least, 1 - least).cdf).pvalue > 1e-3
    assert stats.kstest(area, stats.uniform(least + 0.05, 0.95 - least).cdf).pvalue < 1e-3
    for place in places:
        assert stats.kstest(place, stats.uniform.cdf).pvalue > 1e-3
        assert -1e-3 < place.min() < 0.01
        assert 0.99 < place.max() < 1 + 1e-3
    assert stats.binomtest(int(mirrored.sum()), 4000).pvalue > 1e-3
    assert abs(stats.pearsonr(*places).statistic) < 0.06


def test_shapes_of_crops():
    """Sides within the image, their ratio within the stretch, as often tall as wide."""
    _, height, _, width, _ = windows(CropCurriculum(stretch=2)(ramps(2000), 1.0, seed()))
    assert max(height.max(), width.max()) <= 32 + 1e-4
    ratio = (width / height).log()
    assert ratio.abs().max() <= torch.tensor(2.0).log() + 1e-4
    assert ratio.abs().max() > 0.6
    assert stats.binomtest(int((ratio > 0).sum()), 2000).pvalue > 1e-3
    _, height, _, width, _ = windows(CropCurriculum(stretch=1)(ramps(100), 1.0, seed()))
    torch.testing.assert_close(height, width, atol=1e-4, rtol=0)


def test_crops_shrink_from_easy_to_hard():
    curriculum = CropCurriculum(smallest=0.1)
    views = [curriculum(ramps(300), progress, seed()) for progress in (0.1, 0.4, 0.7, 1.0)]
    areas = [(height * width).mean() for _, height, _, width, _ in map(windows, views)]
    assert areas == sorted(areas, reverse=True)


def test_only_the_generator_decides():
    curriculum, images = CropCurriculum(), noise(5, 3, 8, 8)
    state = torch.random.get_rng_state()
    first = curriculum(images, 1.0, seed(1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(curriculum(images, 1.0, seed(1)), first)
    assert not torch.equal(curriculum(images, 1.0, seed(2)), first)


def test_a_view_depends_on_its_own_image_alone():
    curriculum, images = CropCurriculum(), noise(3, 1, 8, 8)
    changed = images.clone()
    changed[1] = 7.0
    one, other = curriculum(images, 1.0, seed()), curriculum(changed, 1.0, seed())
    assert torch.equal(one[::2], other[::2])
    assert not torch.equal(one[1], other[1])


def test_a_view_is_an_average_of_pixels():
    """So that it stays in the range of its image, and a constant one is left as it is."""
    images = noise(50, 1, 8, 8).clamp(-1, 1)
    views = CropCurriculum(smallest=0.05)(images, 1.0, seed())
    assert views.abs().max() <= 1 + 1e-6
    flat = CropCurriculum()(torch.full((4, 1, 8, 8), 0.7), 1.0, seed())
    torch.testing.assert_close(flat, torch.full((4, 1, 8, 8), 0.7))
    assert flat.dtype == torch.float32


def test_an_empty_batch_has_no_views():
    assert CropCurriculum()(torch.zeros(0, 3, 8, 8), 1.0, seed()).shape == (0, 3, 8, 8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smallest": 0.0}, "smallest is 0.0; give a share above 0, at most 1"),
        ({"smallest": 1.5}, "smallest is 1.5"),
        ({"stretch": 0.5}, "stretch is 0.5; give a ratio of 1 or more"),
        ({"stretch": float("nan")}, "stretch is nan"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        CropCurriculum(**settings)


def test_what_is_no_image_or_no_share_is_refused():
    curriculum, images = CropCurriculum(), torch.zeros(1, 1, 4, 4)
    for progress in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=f"progress is {progress}; give a share from 0 to 1"):
            curriculum(images, progress, seed())
    with pytest.raises(ConfigError, match=r"images are torch.uint8 of shape \(1, 1, 4, 4\)"):
        curriculum(images.byte(), 0.5, seed())
    with pytest.raises(ConfigError, match=r"shape \(1, 4, 4\); give floats"):
        curriculum(images[0], 0.5, seed())
