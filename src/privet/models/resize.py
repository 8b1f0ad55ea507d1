"""Images as a public network expects them, whatever size the data has."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from privet.errors import ConfigError


def fitted(images: Tensor, *, channels: int | None, image_size: int | None) -> Tensor:
    """Images (N, C, H, W), grey ones repeated to `channels`, resized to a square; None leaves both.

    Smaller images are enlarged by bicubic interpolation, larger ones are smoothed first.
    """
    if images.ndim != 4 or not images.is_floating_point():
        raise ConfigError(
            f"images are {images.dtype} of shape {tuple(images.shape)};"
            " give floats in [-1, 1] of shape (N, C, H, W)."
        )
    if channels is not None:
        images = _repeated(images, channels)
    if image_size is None or images.shape[2:] == (image_size, image_size):
        return images
    shrinks = max(images.shape[2:]) > image_size
    return F.interpolate(images, (image_size, image_size), mode="bicubic", antialias=shrinks)


def _repeated(images: Tensor, channels: int) -> Tensor:
    if images.shape[1] not in (1, channels):
        raise ConfigError(f"images have {images.shape[1]} channels; give 1 or {channels}.")
    return images.expand(-1, channels, -1, -1)
