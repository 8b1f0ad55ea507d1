"""Bytes to numbers."""

import numpy as np
import pytest
import torch

from privet.augment import to_float
from privet.errors import ConfigError


def test_every_byte_goes_where_it_should():
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    pixels = to_float(torch.tensor(images))
    expected = (images.transpose(0, 3, 1, 2).astype(np.float64) - 127.5) / 127.5
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    np.testing.assert_allclose(pixels, expected, atol=1e-6)


def test_ends_and_bytes_left_alone():
    images = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
    assert to_float(images).flatten().tolist() == [-1.0, 1.0]
    assert images.flatten().tolist() == [0, 255]


@pytest.mark.parametrize("images", [torch.zeros(2, 4, 4, 1), torch.zeros(4, 4, 1).byte()])
def test_what_is_not_bytes_of_images_is_refused(images):
    with pytest.raises(ConfigError, match="uint8"):
        to_float(images)
