"""Texts that someone else chose, such as class names, inside Markdown and YAML."""

from __future__ import annotations

import re

from privet.data.guard import shown

# Marks of Markdown, its tables, formulas and mentions, and what makes a bare address a link.
_MARKS = re.compile(r"([\\`*_{}\[\]<>|&~#$!@]|(?<=:)/|(?<=[wW]{3})\.)")


def in_markdown(text: object) -> str:
    """A text that is shown as it is, on one line, and formats, links or breaks nothing."""
    return _MARKS.sub(r"\\\1", shown(text))


def in_yaml(text: str) -> str:
    """A double-quoted scalar that reads as the same text."""
    return '"' + "".join(map(_yaml_character, text)) + '"'


def _yaml_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return (
        f"\\x{code:02x}" if code < 2**8 else f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"
    )
