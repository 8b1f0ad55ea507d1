"""Shards as folders of PNG files, one for each class, for whatever reads nothing else."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from privet.data.disk import check_free_space, writing
from privet.data.guard import shown
from privet.data.shards import pieces, row_counts, shard_name
from privet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 4096
_MARKER = ".privet-png"
_PICTURE = re.compile(r"\d{6,}\.png")
_UNSAFE = frozenset('%/\\:*?"<>|')
_LONGEST_NAME = 255


def write_png_folders(folder: Path, out: Path, *, force: bool = False) -> int:
    """Unpack shards into `out/<class name>/<row>.png`, all or none; returns how many images.

    Characters that no file name should have become %XX; a class without images gets no folder.
    """
    place = out.expanduser().resolve()
    _check_free(place, out, source=folder, force=force)
    counts = row_counts(folder)
    if not counts:
        raise DataError(f"{shown(folder)} holds no shards; give the folder of a synthetic set.")
    stored = sum((folder / shard_name(each)).stat().st_size for each in range(len(counts)))
    check_free_space(place.parent, stored + _BLOCK * sum(counts))
    with writing(out), _staged(place, out) as staging:
        _unpack(folder, len(counts), staging, digits=max(6, len(str(sum(counts) - 1))))
        (staging / _MARKER).touch()
        _put_in_place(staging, place)
    return sum(counts)


def remove_png_folders(out: Path) -> None:
    """Take away what `write_png_folders` made; anything else stays."""
    place = out.expanduser().resolve()
    if place.is_dir() and _is_ours(place):
        with writing(out):
            shutil.rmtree(place)


def _check_free(place: Path, out: Path, *, source: Path, force: bool) -> None:
    """Refuse a place that is not ours to replace, before any work is done."""
    if place.is_relative_to(source.expanduser().resolve()):
        raise ConfigError(f"{shown(out)} lies in the folder of the shards; choose one outside it.")
    with writing(out):
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return
        if not (place.is_dir() and _is_ours(place)):
            raise ConfigError(f"{shown(out)} holds something else; choose another folder.")
    if not force:
        raise ConfigError(f"{shown(out)} exists; give another path, or --force to overwrite it.")


def _is_ours(place: Path) -> bool:
    """Whether nothing but unpacked images would be lost with a folder."""
    files = [each for each in place.rglob("*") if not each.is_dir() and each.name != _MARKER]
    return (place / _MARKER).is_file() and all(_PICTURE.fullmatch(each.name) for each in files)


@contextmanager
def _staged(place: Path, out: Path) -> Iterator[Path]:
    """An empty hidden folder beside the place, held against other processes, gone in the end."""
    staging = place.with_name(f".{place.name}.part")
    staging.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(staging, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{shown(out)} is being written by another process.") from None
        try:
            _empty(staging)
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


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


def _put_in_place(staging: Path, place: Path) -> None:
    """Rename, with an earlier folder kept aside until that is done."""
    if not place.exists():
        staging.rename(place)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".old", dir=place.parent))
    place.rename(aside)
    try:
        staging.rename(place)
    except BaseException:
        aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _file_name(class_name: str, label: int) -> str:
    """The class name with %XX for what a file name should not have; no two classes share one."""
    safe = "".join(c if c.isprintable() and c not in _UNSAFE else _escaped(c) for c in class_name)
    if safe[:1] in (".", " "):
        safe = _escaped(safe[0]) + safe[1:]
    if safe[-1:] in (".", " "):
        safe = safe[:-1] + _escaped(safe[-1])
    return safe if 0 < len(safe.encode()) <= _LONGEST_NAME else f"%class-{label}"


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
