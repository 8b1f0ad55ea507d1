"""Folders of image files: a folder a class, or all in one place without labels."""

from __future__ import annotations

import itertools
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

METADATA = "metadata.csv"
"""A table of what is known of each image, by the name that it has for `datasets`."""

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx")


def entries(folder: Path) -> list[Path]:
    """What a folder holds, sorted by name, without hidden files and what systems leave behind."""
    names = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in names if entry.name.lower() not in _CLUTTER)


def read_folder(folder: Path, options: Options) -> ImageSet:
    """Classes are the sorted names of the sub-folders; without sub-folders there are no labels."""
    if options.part is not None:
        raise DataError(f"{shown(folder)} is one part; leave --part (part=) out, or go into it.")
    files = _files(folder)
    images = read_encoded(EncodedFiles(tuple(itertools.chain(*files.values()))), options)
    if folder in files:
        return ImageSet(images)
    labels = np.repeat(np.arange(len(files)), [len(each) for each in files.values()])
    return ImageSet(images, labels, tuple(each.name for each in files))


def image_files(folder: Path) -> list[Path]:
    """All images, in the order in which they load."""
    return list(itertools.chain(*_files(folder).values()))


def _files(folder: Path) -> dict[Path, tuple[Path, ...]]:
    """Images by class folder, or all by the folder itself where it has none."""
    beside = (*BESIDE, METADATA)
    found = [entry for entry in entries(folder) if entry.name not in beside or entry.is_dir()]
    if not found:
        raise DataError(f"{shown(folder)} is an empty folder; put images or class folders into it.")
    classes = [entry for entry in found if entry.is_dir()]
    if not classes:
        return {folder: _checked(found)}
    if len(classes) < len(found):
        loose = next(entry for entry in found if entry not in classes)
        raise DataError(f"{shown(loose)} lies beside class folders; move it into one of them.")
    return {each: _images_in(each) for each in classes}


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
