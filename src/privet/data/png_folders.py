"""Shards as folders of PNG files, one for each class, for whatever reads nothing else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from privet.data.disk import check_free_space, writing
from privet.data.folder import BESIDE
from privet.data.guard import shown
from privet.data.shards import pieces, row_counts, shard_name
from privet.data.staging import check_free_folder, new_folder
from privet.errors import DataError
from privet.paths import as_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLOCK = 4096
_MARKER = ".privet-png"
_PICTURE = re.compile(r"\d{6,}\.png")
_UNSAFE = frozenset('%/\\:*?"<>|')
_LONGEST_NAME = 255
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows


def write_png_folders(
    folder: Path, out: Path, *, beside: Mapping[str, str] | None = None, force: bool = False
) -> int:
    """Unpack shards into `out/<class name>/<row>.png`, all or none; returns how many images.

    Characters that no file name should have become %XX; a class without images gets no folder.
    Texts of `beside`, by the names that `load` knows to leave alone, go beside the folders.
    """
    place = as_path(out).resolve()
    check_free_folder(out, source=folder, is_ours=_is_ours, force=force)
    counts = row_counts(folder)
    if not counts:
        raise DataError(f"{shown(folder)} holds no shards; give the folder of a synthetic set.")
    stored = sum((folder / shard_name(each)).stat().st_size for each in range(len(counts)))
    check_free_space(place.parent, stored + _BLOCK * sum(counts))
    with new_folder(out) as staging:
        _unpack(folder, len(counts), staging, digits=max(6, len(str(sum(counts) - 1))))
        for name, text in (beside or {}).items():
            (staging / name).write_text(text, encoding="utf-8")
        (staging / _MARKER).touch()
    return sum(counts)


def remove_png_folders(out: Path) -> None:
    """Take away what `write_png_folders` made; anything else stays."""
    place = as_path(out).resolve()
    if place.is_dir() and _is_ours(place):
        with writing(out):
            shutil.rmtree(place)


def _is_ours(place: Path) -> bool:
    """Whether nothing but unpacked images would be lost with a folder."""
    own = [place / name for name in (_MARKER, *BESIDE)]
    files = [each for each in place.rglob("*") if not each.is_dir() and each not in own]
    return (place / _MARKER).is_file() and all(_PICTURE.fullmatch(each.name) for each in files)


def _unpack(folder: Path, shards: int, staging: Path, *, digits: int) -> None:
    made: dict[int, Path] = {}
    row = 0
    for path in (folder / shard_name(number) for number in range(shards)):
        for content, label, class_name in _rows(path):
            if label not in made:
                made[label] = staging / _file_name(class_name, label)
                made[label].mkdir()
            (made[label] / f"{row:0{digits}d}.png").write_bytes(content)
            row += 1


def _rows(path: Path) -> Iterator[tuple[bytes, int, str]]:
    """The encoded image, the label and the class name of each row."""
    for piece in pieces(path):
        for inside, label in enumerate(piece.labels.tolist()):
            content = piece.blobs[inside]
            if content is None:
                raise DataError(f"{shown(path)} has a row without an image; make it again.")
            yield content, label, piece.class_names[label]


def _file_name(class_name: str, label: int) -> str:
    """The class name with %XX for what a file name should not have; no two classes share one."""
    safe = "".join(c if c.isprintable() and c not in _UNSAFE else _escaped(c) for c in class_name)
    beside = safe.casefold() in map(str.casefold, BESIDE)
    if safe[:1] in (".", " ") or beside or _RESERVED.fullmatch(safe):
        safe = _escaped(safe[0]) + safe[1:]
    if safe[-1:] in (".", " "):
        safe = safe[:-1] + _escaped(safe[-1])
    return safe if 0 < len(safe.encode()) <= _LONGEST_NAME else f"%class-{label}"


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
