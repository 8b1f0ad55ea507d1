"""Folders that `datasets.Dataset.save_to_disk` wrote, read through that optional package."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from privet.data.guard import reading, shown
from privet.data.parquet import from_shards, from_table
from privet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pathlib import Path

    from privet.data.image_set import ImageSet
    from privet.data.options import Options

_MARKS = ("dataset_dict.json", "dataset_info.json")


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` left its marks."""
    return any((folder / mark).is_file() for mark in _MARKS)


def read_saved(folder: Path, options: Options) -> ImageSet:
    """A `Dataset`, or one split of a `DatasetDict`; its Arrow files stay memory-mapped."""
    if find_spec("datasets") is None:
        raise ConfigError(
            f"{shown(folder)} was saved by datasets; run pip install 'privet[datasets]' to read it."
        )
    from datasets import DatasetDict, load_from_disk

    with reading(folder, "folder saved by datasets"):
        saved = load_from_disk(str(folder.resolve()))
        chosen = _split(saved, folder, options.part) if isinstance(saved, DatasetDict) else saved
        if chosen is saved and options.part is not None:
            raise DataError(f"{shown(folder)} has no parts; leave --part (part=) out.")
        table = chosen.with_format("arrow")[:]
        # Files are mapped unread, so offsets are checked before anything follows them.
        table.validate(full=True)
        return from_shards([from_table(table, folder)], options)


def _split(saved: dict[str, Any], folder: Path, part: str | None) -> Any:
    wanted = part or "train"
    if wanted not in saved:
        raise DataError(
            f"{shown(folder)} has no part {shown(wanted)!r}; choose {shown(' or '.join(saved))}"
            " with --part (part=)."
        )
    return saved[wanted]
