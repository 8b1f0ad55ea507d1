"""Images of nothing at all: what stands in for public ones where there are none.

Clouds, leaves that hide each other, and waves: random processes with the statistics that images of
things have. An encoder that learns to tell such processes apart learns edges, orientations and
sizes.

References:
    Field, 1987 (amplitudes fall with frequency); Lee et al., 2001 (dead leaves); Baradad et al.,
    Learning to See by Looking at Noise, 2021 (encoders from random processes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from privet.public.rows import PublicRows

_OWN = 0.3  # of a colour channel's noise; the rest is common to all
_LEAST_GAIN, _MOST_GAIN = 0.5, 4.0
_LEAVES = 60
_ANGLES = 6
_INSIDE: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "disc": lambda along, aside: along**2 + aside**2 < 1,
    "square": lambda along, aside: (along.abs() < 1) & (aside.abs() < 1),
    "bar": lambda along, aside: (along.abs() < 2) & (aside.abs() < 0.25),
    "ring": lambda along, aside: ((along**2 + aside**2).sqrt() - 1).abs() < 0.25,
}
"""By the place of a pixel in units of a thing's radius."""


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


def dead_leaves(
    image_shape: tuple[int, int, int],
    count: int,
    generator: torch.Generator,
    *,
    shape: str = "disc",
    largest: float = 0.5,
) -> Tensor:
    """Things in front of each other, uint8 (N, H, W, C), their sizes without a scale.

    Args:
        image_shape: height, width and channels.
        count: how many.
        generator: the only thing that they depend on.
        shape: what all things in all images are: disc, square, bar or ring.
        largest: the largest radius, as a share of the shorter side.
    """
    height, width, channels = image_shape
    side = min(height, width)
    down, across = torch.arange(height)[:, None], torch.arange(width)[None]
    images = torch.full((count, channels, height, width), 0.5)

    def drawn(*more: int) -> Tensor:
        return torch.rand(count, *more, generator=generator)[..., None, None]

    for _ in range(_LEAVES):
        least, most = side / 14, largest * side
        # Areas without a scale: radii with density r^-3.
        radius = (least**-2 + drawn() * (most**-2 - least**-2)) ** -0.5
        y, x = down - drawn() * height, across - drawn() * width
        angle = math.pi * drawn()
        along, aside = y * angle.cos() + x * angle.sin(), x * angle.cos() - y * angle.sin()
        inside = _INSIDE[shape](along / radius, aside / radius)
        own, common = drawn(channels), drawn(1)
        images = torch.where(inside[:, None], _OWN * own + (1 - _OWN) * common, images)
    return (255 * images).round().to(torch.uint8).movedim(1, -1).contiguous()


def oriented_waves(
    image_shape: tuple[int, int, int],
    count: int,
    generator: torch.Generator,
    *,
    angle: float,
    frequency: float,
) -> Tensor:
    """Noise of one orientation and one scale, uint8 (N, H, W, C).

    Args:
        image_shape: height, width and channels.
        count: how many.
        generator: the only thing that they depend on.
        angle: of the waves' direction, from 0 to π.
        frequency: waves in a pixel, at most 1/2.
    """
    height, width, channels = image_shape
    down, across = torch.fft.fftfreq(height)[:, None], torch.fft.fftfreq(width)[None]
    centre = frequency * math.sin(angle), frequency * math.cos(angle)
    gap = (down - centre[0]) ** 2 + (across - centre[1]) ** 2
    window = torch.exp(-gap / (2 * (0.4 * frequency) ** 2))

    def waves(many: int) -> Tensor:
        size = (count, many, height, width)
        spectrum = torch.complex(
            torch.randn(size, generator=generator), torch.randn(size, generator=generator)
        )
        noise: Tensor = torch.fft.ifft2(spectrum * window).real
        return noise / noise.std((1, 2, 3), keepdim=True)

    noise = math.sqrt(1 - _OWN**2) * waves(1) + _OWN * waves(channels)
    pixels = 255 * torch.sigmoid(2 * noise)
    return pixels.round().to(torch.uint8).movedim(1, -1).contiguous()


def procedural_rows(
    image_shape: tuple[int, int, int], per_class: int, generator: torch.Generator
) -> PublicRows:
    """Images of many processes, which are their classes: clouds, leaves and waves.

    Args:
        image_shape: height, width and channels.
        per_class: images of each process.
        generator: the only thing that they depend on.
    """
    found = [fractal_noise(image_shape, per_class, generator)]
    for shape in _INSIDE:
        for largest in (0.15, 0.5):
            found.append(
                dead_leaves(image_shape, per_class, generator, shape=shape, largest=largest)
            )
    for step in range(_ANGLES):
        for frequency in (0.08, 0.16, 0.32):
            angle = math.pi * step / _ANGLES
            waves = oriented_waves(
                image_shape, per_class, generator, angle=angle, frequency=frequency
            )
            found.append(waves)
    labels = torch.arange(len(found)).repeat_interleave(per_class)
    return PublicRows(torch.cat(found), labels)
