"""Images of nothing at all: what stands in for public ones where there are none."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_OWN = 0.3  # of a colour channel's noise; the rest is common to all
_LEAST_GAIN, _MOST_GAIN = 0.5, 4.0


def fractal_noise(
    image_shape: tuple[int, int, int], count: int, generator: torch.Generator
) -> Tensor:
    """Smooth noise, uint8 (N, H, W, C), from soft clouds to hard-edged shapes.

    Amplitudes fall with frequency as those of photographs do (Field 1987), so that principal
    components and typical magnitudes are of some use for images of things.

    Args:
        image_shape: height, width and channels.
        count: how many.
        generator: the only thing that they depend on.
    """
    height, width, channels = image_shape
    down, across = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)[None]
    frequencies = torch.hypot(down, across)
    frequencies[0, 0] = 1 / max(height, width)
    slopes = 1 + torch.rand(count, 1, 1, 1, generator=generator)

    def clouds(many: int) -> Tensor:
        size = (count, many, height, width // 2 + 1)
        spectrum = torch.complex(
            torch.randn(size, generator=generator), torch.randn(size, generator=generator)
        )
        noise: Tensor = torch.fft.irfft2(spectrum * frequencies**-slopes, s=(height, width))
        return noise / noise.std((1, 2, 3), keepdim=True)

    noise = math.sqrt(1 - _OWN**2) * clouds(1) + _OWN * clouds(channels)
    spread = math.log(_MOST_GAIN / _LEAST_GAIN)
    gains = _LEAST_GAIN * torch.exp(spread * torch.rand(count, 1, 1, 1, generator=generator))
    shades = torch.randn(count, 1, 1, 1, generator=generator)
    pixels = 255 * torch.sigmoid(gains * (noise + shades))
    return pixels.round().to(torch.uint8).movedim(1, -1).contiguous()
