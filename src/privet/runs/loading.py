"""`privet.load`: what a finished run, or something exported from one, is good for."""

from __future__ import annotations

import os
from pathlib import Path

from privet.data import load as load_images
from privet.data.guard import shown
from privet.data.shards import is_shard
from privet.data.tables import read_table
from privet.errors import ConfigError
from privet.paths import as_path
from privet.runs.finished_set import (
    SETS,
    SYNTHESIZE,
    finished_set_config,
    finished_table_config,
    made_table,
)
from privet.runs.run_certificate import certificate_of, spending_certificate_of
from privet.runs.run_folder import (
    CERTIFICATE,
    CONFIG,
    MODEL,
    SYNTHETIC,
    TABLE_PARQUET,
    RunFolder,
    understood,
)
from privet.runs.shared_model import Shared, SharedModel
from privet.runs.trained_network import finished_config
from privet.share.synthetic_rows import SyntheticRows
from privet.share.synthetic_set import SyntheticSet

SHARED = "classifier"
"""The name in the schema of an exported model's folder, which is no run."""


def load(folder: str | os.PathLike[str]) -> Shared | SyntheticSet | SyntheticRows:
    """Load a model, or synthetic images or rows, from the folder of a run or of an export of one.

    Args:
        folder: of a finished run of `privet train`, `synthesize`, `merge` or `federate`, or one
            that `privet export --to safetensors` or `--to parquet` wrote. Nothing is unpickled.
    """
    place = as_path(folder)
    with understood(place):
        return _loaded(place)


def _loaded(place: Path) -> Shared | SyntheticSet | SyntheticRows:
    RunFolder(place).refuse_other_layouts()
    if RunFolder(place).holds_run or RunFolder(place, SHARED).holds_run:
        return load_classifier(place)
    for synthesis in (RunFolder(place, command) for command in SETS):
        if synthesis.holds_run and synthesis.command == SYNTHESIZE and made_table(synthesis):
            return _rows(synthesis)
        if synthesis.holds_run:
            finished_set_config(synthesis)
            return _set(place / SYNTHETIC, synthesis)
    if (
        place.is_dir()
        and synthesis.has(CERTIFICATE)
        and any(is_shard(each.name) for each in place.iterdir())
    ):
        return _set(place, synthesis)
    raise ConfigError(
        f"{shown(place)} holds no run and no export of one: give the folder of a finished "
        "'privet train' or 'privet synthesize'."
    )


def load_classifier(place: Path) -> Shared:
    """Load the model of a run, or an exported one."""
    run, shared = RunFolder(place), RunFolder(place, SHARED)
    if shared.holds_run:
        found = SharedModel.from_json(shared.read(CONFIG).get("config", {}))
    else:
        found = SharedModel.of(finished_config(run))
    return found.classifier(place / MODEL, spending_certificate_of(run))


def _rows(folder: RunFolder) -> SyntheticRows:
    return SyntheticRows(
        schema=finished_table_config(folder).rows.schema,
        table=read_table(folder / TABLE_PARQUET),
        certificate=spending_certificate_of(folder),
        folder=folder / SYNTHETIC,
    )


def _set(shards: Path, folder: RunFolder) -> SyntheticSet:
    return SyntheticSet(data=load_images(shards), certificate=certificate_of(folder), folder=shards)
