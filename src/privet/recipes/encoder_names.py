"""Encoders as they are typed: names with settings, files, or several with a + between them."""

from __future__ import annotations

import re
from typing import Any

from privet.errors import ConfigError
from privet.paths import absolute, as_path
from privet.recipes.encoders import ENCODERS, EncoderChoice, Saved, Several
from privet.recipes.forms import Forms
from privet.recipes.public_encoders import Pretrained, Procedural

_TYPED = Forms({EncoderChoice: ENCODERS})
_FILE = ".safetensors"
_BETWEEN = re.compile(r"\+(?=[^\d])")


def encoder_choice(text: str, *, invert: bool = True) -> EncoderChoice:
    """Read an encoder as it is typed, or several with a + between them.

    Args:
        text: what was typed.
        invert: `Pretrained.invert` of encoders that do not say it themselves.
    """
    found = tuple(_one_encoder(each, invert) for each in _several(text))
    return found[0] if len(found) == 1 else Several(choices=found)


def placed_encoders(text: str) -> str:
    """Return the same text with absolute paths, so that files are found from any folder."""
    return "+".join(absolute(each) if _is_file(each) else each for each in _several(text))


def _one_encoder(text: str, invert: bool) -> EncoderChoice:
    if _is_file(text):
        return Saved(file=absolute(text))
    usual: dict[type, Any] = {kind: kind(invert=invert) for kind in (Pretrained, Procedural)}
    encoder: EncoderChoice = _TYPED.read(EncoderChoice, text, "--encoder", usual)
    return encoder


def _several(text: str) -> list[str]:
    """Split at every +, but for that of a number such as 1e+3 or of a file's name."""
    return [text] if _is_there(text) else _BETWEEN.split(text)


def _is_there(text: str) -> bool:
    """Whether a file of this name exists; a name that no disk could have is no file."""
    try:
        return as_path(text).is_file()
    except ConfigError:
        return False


def _is_file(text: str) -> bool:
    return text.endswith(_FILE) and text.partition(":")[0] not in ENCODERS
