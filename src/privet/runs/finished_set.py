"""What a finished run of `privet synthesize`, or a merge of several, was, from its folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privet.errors import ConfigError
from privet.runs.federated_set import FEDERATE, FederatedSet, finished_federation
from privet.runs.merged_config import MERGE, MergedConfig
from privet.runs.public_synthesis import PublicConfig, is_public
from privet.runs.run_folder import CONFIG, SYNTHETIC, RunFolder
from privet.runs.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.runs.synthesis_images import Wanted
from privet.runs.table_config import TableConfig, of_table

SYNTHESIZE = "synthesize"
SETS = (SYNTHESIZE, MERGE, FEDERATE)  # commands that make them

SetConfig = SynthesisConfig | PublicConfig | MergedConfig | FederatedSet


def set_folder(path: Path) -> RunFolder:
    """The folder of a run that made a synthetic set; refused unless it is one."""
    RunFolder(path).refuse_other_layouts()
    for command in SETS:
        folder = RunFolder(path, command)
        if folder.holds_run:
            return folder
    raise ConfigError(
        f"{folder} holds no run of 'privet train', 'tune', 'synthesize', 'merge' or 'federate': "
        "give the folder of one."
    )


def finished_set_config(folder: RunFolder) -> SetConfig:
    """The configuration of the run that a folder holds; refused unless done, and of images."""
    if folder.command == FEDERATE:
        return finished_federation(folder)
    stored = _done(folder)
    if folder.command == MERGE:
        return MergedConfig.from_json(stored["config"])
    if made_table(folder):
        raise ConfigError(
            f"The run in {folder} made a table, not images: {folder / SYNTHETIC} holds it as CSV "
            "and as Parquet, with its certificate."
        )
    public = is_public(SynthesisAsked(), folder.path, resume=True)
    return (PublicConfig if public else SynthesisConfig).from_json(stored["config"])


def finished_table_config(folder: RunFolder) -> TableConfig:
    """The configuration of a run that made a table; refused unless it is done."""
    return TableConfig.from_json(_done(folder)["config"])


def made_table(folder: RunFolder) -> bool:
    """Whether the run that a folder holds makes a table."""
    return of_table(SynthesisAsked(), folder)


def _done(folder: RunFolder) -> dict[str, Any]:
    stored = folder.read(CONFIG)
    if not Wanted(count=stored["count"], png=stored["png"]).made(folder):
        raise ConfigError(f"The run in {folder} is not done: go on with {folder.command_to_resume}")
    return stored
