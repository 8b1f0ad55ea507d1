"""How a data set is to be read: one frozen value that every reader takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from privet.data.guard import GIB
from privet.errors import ConfigError


class Channels(StrEnum):
    """The kind of image that every image is converted to."""

    RGB = "rgb"
    GREY = "grey"


ChannelsName = Literal["rgb", "grey"]

_MAX_SIDE = 16_384


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `load`, checked once.

    `memory_limit` is the decoded size above which images stay encoded until they are asked for;
    `max_bytes` is the size above which a header is not believed.
    """

    part: str | None = None
    resize: tuple[int, int] | None = None
    channels: Channels | ChannelsName | None = None
    memory_limit: int = 2 * GIB
    max_bytes: int = 64 * GIB

    def __post_init__(self) -> None:
        if self.resize is not None and not all(1 <= side <= _MAX_SIDE for side in self.resize):
            raise ConfigError(f"resize is {self.resize}; give sides from 1 to {_MAX_SIDE} pixels.")
        if self.channels not in (None, "rgb", "grey"):
            raise ConfigError(f"channels is {self.channels!r}; give 'rgb' or 'grey'.")
        if self.memory_limit < 0 or self.max_bytes < 0:
            raise ConfigError("memory_limit and max_bytes are bytes; give numbers from 0 upwards.")

    def shape_of(self, image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """The shape that an image of `image_shape` has once it is fitted."""
        height, width = self.resize or image_shape[:2]
        channels = {"rgb": 3, "grey": 1, None: image_shape[2]}[self.channels]
        return height, width, channels


def as_size(resize: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """A size as (height, width); one number means a square."""
    return (resize, resize) if isinstance(resize, int) else resize


def parse_size(text: str) -> tuple[int, int]:
    """Read a size as typed: `32` or `32x48`, height first."""
    match = re.fullmatch(r"(\d{1,6})(?:[xX×](\d{1,6}))?", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"{text!r} is not a size; write 32 or 32x48 (height x width).")
    height, width = match.groups()
    return int(height), int(width or height)
