"""Letters and digits of openly licensed fonts, bent as hands bend them.

The fonts are those that matplotlib carries: DejaVu, STIX and Computer Modern. No image of anybody's
is needed, so an encoder that learned from them may be given to everyone.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from privet.public.rows import PublicRows

CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "αβγδεζηθλμξπσφψω"
_LATIN = string.digits + string.ascii_letters
_FONTS = ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif")
_SLANTED = ("DejaVuSans-Oblique", "DejaVuSansMono-Bold", "DejaVuSerif-Italic", "DejaVuSans-Bold")
_STIX = ("STIXGeneral", "STIXGeneralItalic", "STIXGeneralBol")
_TEX = ("cmr10", "cmss10", "cmtt10", "cmti10", "cmb10")  # without Greek letters
_CANVAS, _HEIGHT = 64, 44  # pixels of a drawing, and of the letters in it
_BEND = 0.12  # the furthest that a point moves, as a share of the image's side
_BATCH = 4096


def glyph_rows(
    image_shape: tuple[int, int, int],
    per_class: int,
    generator: torch.Generator,
    *,
    characters: Sequence[str] = CHARACTERS,
) -> PublicRows:
    """Draw white characters on black, each a class: turned, slanted, bent, thick and thin.

    Args:
        image_shape: height, width and channels; all channels are alike.
        per_class: the number of images of each character.
        generator: all randomness comes from it.
        characters: the characters to draw.
    """
    labels = torch.arange(len(characters)).repeat_interleave(per_class)
    drawings = [_drawings(each) for each in characters]
    chosen = torch.cat([_some(each, per_class, generator) for each in drawings])
    batches = [_bent(each, image_shape[:2], generator) for each in torch.split(chosen, _BATCH)]
    images = (255 * torch.cat(batches)).round().to(torch.uint8).movedim(1, -1)
    return PublicRows(images.expand(-1, -1, -1, image_shape[2]).contiguous(), labels)


def _some(drawings: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return drawings[torch.randint(len(drawings), (count,), generator=generator)]


@cache
def _drawings(character: str) -> Tensor:
    """A character in every font that has it, (fonts, 1, H, W) from 0 to 1."""
    fonts = _FONTS + _SLANTED + _STIX + (_TEX if character in _LATIN else ())
    return torch.stack([_drawn(character, name) for name in fonts])


def _drawn(character: str, font: str) -> Tensor:
    """Draw a character in the middle of a canvas, as tall or as wide as every other."""
    import matplotlib

    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    letter = ImageFont.truetype(file, 2 * _CANVAS)
    left, top, right, bottom = map(round, letter.getbbox(character))
    ink = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(ink).text((-left, -top), character, fill=255, font=letter)
    scale = _HEIGHT / max(ink.size)
    width, height = (max(1, round(scale * side)) for side in ink.size)
    page = Image.new("L", (_CANVAS, _CANVAS))
    page.paste(ink.resize((width, height)), ((_CANVAS - width) // 2, (_CANVAS - height) // 2))
    return torch.from_numpy(np.array(page, dtype=np.float32) / 255)[None]


def _bent(drawings: Tensor, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Bend drawings by a random map of the plane, smooth noise on it, and a pen of some width."""
    count = len(drawings)

    def between(least: float, most: float) -> Tensor:
        return least + (most - least) * torch.rand(count, generator=generator)

    angle, slant, stretch = between(-0.3, 0.3), between(-0.4, 0.4), between(0.8, 1.25)
    zoom, across, down = between(0.85, 1.15), between(-0.1, 0.1), between(-0.1, 0.1)
    cos, sin = zoom * angle.cos(), zoom * angle.sin()
    rows = [
        torch.stack([cos * stretch, cos * slant - sin, across], 1),
        torch.stack([sin * stretch, sin * slant + cos, down], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), [count, 1, *size], align_corners=False)
    coarse = torch.randn(count, 2, 4, 4, generator=generator) * between(0, _BEND).view(-1, 1, 1, 1)
    bends = F.interpolate(coarse, size, mode="bicubic", align_corners=True)
    inked, places = _inked(drawings, between), grid + bends.movedim(1, -1)
    images = F.grid_sample(inked, places, align_corners=False)
    return images * between(0.7, 1.0).view(-1, 1, 1, 1)


def _inked(drawings: Tensor, between: Callable[[float, float], Tensor]) -> Tensor:
    """Make strokes thicker or thinner: drawings are blurred and cut at another height."""
    soft = F.avg_pool2d(drawings, 5, stride=1, padding=2)
    soft = F.avg_pool2d(soft, 5, stride=1, padding=2)
    height = between(0.1, 0.55).view(-1, 1, 1, 1)
    black, ink = torch.sigmoid(-14 * height), torch.sigmoid(14 * (soft - height))
    return (ink - black) / (1 - black)
