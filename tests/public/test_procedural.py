"""Images of random processes: shapes, statistics, and an encoder that can tell them apart."""

import math

import pytest
import torch

from privet.public import procedural_rows
from privet.public.procedural import dead_leaves, oriented_waves
from tests.public.digits import seed


@pytest.mark.parametrize("shape", ["disc", "square", "bar", "ring"])
@pytest.mark.parametrize("image_shape", [(16, 16, 1), (12, 20, 3)])
def test_leaves(shape, image_shape):
    images = dead_leaves(image_shape, 10, seed(), shape=shape)
    assert images.shape == (10, *image_shape)
    assert images.dtype == torch.uint8
    assert torch.equal(images, dead_leaves(image_shape, 10, seed(), shape=shape))
    assert images.float().std((1, 2, 3)).min() > 5


def test_leaves_are_even_between_edges():
    """Neighbours are mostly equal, unlike those of noise."""
    images = dead_leaves((32, 32, 1), 40, seed(), shape="disc").float()
    assert (images.diff(dim=2) == 0).float().mean() > 0.4


@pytest.mark.parametrize("angle", [0.0, math.pi / 3, math.pi / 2])
def test_waves_have_their_orientation_and_frequency(angle):
    images = oriented_waves((32, 32, 1), 50, seed(), angle=angle, frequency=0.2)[..., 0].float()
    power = torch.fft.fft2(images - images.mean((1, 2), keepdim=True)).abs().square().mean(0)
    down, across = torch.fft.fftfreq(32)[:, None], torch.fft.fftfreq(32)[None]
    place = torch.complex(across.expand(32, 32), down.expand(32, 32))
    doubled = (power * (place / place.abs().clamp(min=1e-9)) ** 2).sum()  # of angles modulo π
    assert math.cos(float(torch.angle(doubled)) - 2 * angle) > 0.95
    assert float((power * place.abs()).sum() / power.sum()) == pytest.approx(0.2, abs=0.06)


def test_rows_are_of_many_classes_that_differ():
    rows = procedural_rows((16, 16, 1), 6, seed())
    assert len(rows) == 6 * (1 + 8 + 18)
    assert torch.bincount(rows.targets).tolist() == [6] * 27
    assert torch.equal(rows.inputs, procedural_rows((16, 16, 1), 6, seed()).inputs)
