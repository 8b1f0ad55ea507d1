"""The images of a run on disk: shards, PNG files, a sheet of samples. They grow at no cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privet.data import load
from privet.data.contact_sheet import draw_contact_sheet
from privet.data.disk import check_free_space
from privet.data.png_folders import write_png_folders
from privet.data.shards import largest_shard, read_shards, shard_name, write_shard
from privet.errors import ConfigError
from privet.hedge import Alone, Team
from privet.recipes.releases import Drawn, Images, Probabilities
from privet.runs.listening import Listener
from privet.runs.run_folder import PNG, RESULT, SAMPLES, SYNTHETIC, RunFolder
from privet.runs.set_card import Layout, beside, discard_card, write_card
from privet.runs.stored_evaluation import forget
from privet.runs.team_images import dealt
from privet.share.data_card import PNG as PNG_FORM

_ON_SHEET = 240
_BYTES = 4  # of a pixel that is being optimised


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a run is to leave.

    Args:
        count: how many images, or rows of a table.
        png: whether images are PNG files too, in a folder for each class.
    """

    count: int
    png: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ConfigError(f"--count is {self.count}: give 1 or more.")
        if not isinstance(self.png, bool):
            raise ConfigError(f"--png is {self.png!r}: give it or leave it out.")

    def grown(self, count: int | None, png: bool) -> Wanted:
        """Return as much as before, or more; refuse less."""
        grown = Wanted(count=self.count if count is None else count, png=self.png or png)
        if grown.count < self.count:
            raise ConfigError(f"The run has {self.count:,} already: ask for as many or more.")
        return grown

    def made(self, folder: RunFolder) -> bool:
        """Whether the run in a folder has left that much."""
        if not folder.has(RESULT):
            return False
        result = folder.read(RESULT)
        count = result.get("images", result.get("rows"))
        return bool(count == self.count and bool(result.get("png")) >= self.png)


def check_space(folder: RunFolder, config: Layout, wanted: Wanted, stages: int = 0) -> None:
    """Refuse to begin what the disk cannot hold: shards, and batches that stages remember."""
    pixels = math.prod(config.image_shape)
    remembered = stages * wanted.count * pixels * _BYTES
    needed = _bytes_of(config, wanted.count) + remembered
    check_free_space(folder.path, needed)


def write_images(
    synthetic: Drawn,
    config: Layout,
    folder: RunFolder,
    listener: Listener,
    wanted: Wanted,
    team: Team | None = None,
) -> None:
    """Write all that is wanted and not there yet; a card, which speaks of all, comes last."""
    discard_card(folder)
    write_shards(synthetic, config, folder, listener, wanted.count, team)
    if wanted.png:
        texts = beside(folder, config, wanted.count, PNG_FORM)
        write_png_folders(folder / SYNTHETIC, folder / PNG, beside=texts, force=True)
    write_sheet(folder)
    write_card(folder, config, wanted.count)


def write_shards(
    synthetic: Drawn,
    config: Layout,
    folder: RunFolder,
    listener: Listener,
    count: int,
    team: Team | None = None,
) -> None:
    """Write one batch in each shard; a last one that was cut short is made again, whole."""
    place, size = folder / SYNTHETIC, synthetic.batch_size
    there = read_shards(place)
    whole = len(there)
    if there and there[-1] < min(size, count - (whole - 1) * size):
        whole -= 1
    tell = listener.progress("images")
    numbers = range(whole, math.ceil(count / size))
    made = dealt(synthetic, numbers, team or Alone())
    for number, (images, labels) in zip(numbers, made, strict=True):
        left = count - number * size
        check_free_space(place, _bytes_of(config, min(left, size)))
        forget(folder)
        (place / shard_name(number)).unlink(missing_ok=True)
        write_shard(
            place,
            number,
            images[:left],
            labels[:left] if config.class_names else None,
            config.class_names or None,
            probabilities=_probabilities(synthetic, config, images[:left]),
        )
        tell(min(count, (number + 1) * size), count)


def _probabilities(synthetic: Drawn, config: Layout, images: Images) -> Probabilities | None:
    if not config.soft_labels:
        return None
    assert synthetic.soft is not None
    return synthetic.soft(images)


def _bytes_of(config: Layout, count: int) -> int:
    probabilities = len(config.class_names) if config.soft_labels else 0
    return largest_shard(count, config.image_shape, probabilities=probabilities)


def write_sheet(folder: RunFolder) -> None:
    """Draw some images of the first shard on the sheet of samples."""
    images = load(folder / SYNTHETIC / shard_name(0))
    rows = np.arange(min(len(images), _ON_SHEET))
    sheet = draw_contact_sheet(images.take(rows), lines=1)
    folder.write_with(SAMPLES, lambda path: sheet.save(path, "PNG"))
