"""From stored bytes to what a network reads, and back."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import ConfigError

_MIDDLE = 127.5


def to_float(images: Tensor) -> Tensor:
    """Turn bytes (N, H, W, C) into numbers (N, C, H, W) from -1 to 1."""
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise ConfigError(
            f"images are {images.dtype} of shape {tuple(images.shape)}; give uint8 (N, H, W, C), "
            "or a preprocess of your own for other inputs."
        )
    # Channels move while they are bytes: a quarter of the traffic.
    pixels = images.permute(0, 3, 1, 2).contiguous().to(torch.float32)
    return pixels.sub_(_MIDDLE).div_(_MIDDLE)


def to_pixels(images: Tensor) -> NDArray[np.uint8]:
    """Turn numbers (N, C, H, W) in [-1, 1] into bytes (N, H, W, C)."""
    pixels = ((images.clamp(-1, 1) + 1) * _MIDDLE).round().to(torch.uint8)
    return np.ascontiguousarray(pixels.movedim(1, -1).cpu().numpy())
