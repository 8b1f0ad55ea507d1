"""Folders of image files: a folder a class, or all in one place without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privet.data.encoded import EncodedFiles, read_encoded
from privet.data.guard import shown
from privet.data.image_set import ImageSet
from privet.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from privet.data.options import Options

BESIDE = ("README.md", "certificate.json")
"""What may lie beside images or class folders and is none of them: a card and a certificate."""

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx")


def entries(folder: Path) -> list[Path]:
    """What a folder holds, sorted by name, without hidden files and what systems leave behind."""
    names = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in names if entry.name.lower() not in _CLUTTER)


def read_folder(folder: Path, options: Options) -> ImageSet:
    """Classes are the sorted names of the sub-folders; without sub-folders there are no labels."""
    found = [entry for entry in entries(folder) if entry.name not in BESIDE or entry.is_dir()]
    if not found:
        raise DataError(f"{shown(folder)} is an empty folder; put images or class folders into it.")
    if options.part is not None:
        raise DataError(f"{shown(folder)} is one part; leave --part (part=) out, or go into it.")
    classes = [entry for entry in found if entry.is_dir()]
    if not classes:
        return ImageSet(read_encoded(EncodedFiles(_checked(found)), options))
    if len(classes) < len(found):
        loose = next(entry for entry in found if entry not in classes)
        raise DataError(f"{shown(loose)} lies beside class folders; move it into one of them.")
    return _read_classes(classes, options)


def _read_classes(classes: list[Path], options: Options) -> ImageSet:
    files = [_images_in(folder) for folder in classes]
    labels = np.repeat(np.arange(len(classes)), [len(each) for each in files])
    paths = tuple(path for each in files for path in each)
    images = read_encoded(EncodedFiles(paths), options)
    return ImageSet(images, labels, tuple(folder.name for folder in classes))


def _images_in(folder: Path) -> tuple[Path, ...]:
    found = entries(folder)
    if not found:
        raise DataError(f"{shown(folder)} is an empty folder; remove it or put images into it.")
    return _checked(found)


def _checked(paths: list[Path]) -> tuple[Path, ...]:
    for path in paths:
        _check_image_file(path)
    return tuple(paths)


def _check_image_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(
            f"{shown(path)} is a folder where an image should be; give"
            f" {shown(path.parent)} itself if that is the data set."
        )
    if path.suffix.lower() not in _SUFFIXES:
        raise DataError(f"{shown(path)} is not a PNG, JPEG or WebP image; remove it.")
    if not path.is_file():
        raise DataError(f"{shown(path)} is a broken link or no regular file; remove it.")
