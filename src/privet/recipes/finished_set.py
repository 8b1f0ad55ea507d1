"""What a finished run of `privet synthesize` was, from its folder alone."""

from __future__ import annotations

from pathlib import Path

from privet.errors import ConfigError
from privet.recipes.federated_set import FEDERATE, FederatedSet, finished_federation
from privet.recipes.public_synthesis import PublicConfig, is_public
from privet.recipes.run_folder import CONFIG, RunFolder
from privet.recipes.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.recipes.synthesis_images import Wanted


def set_folder(path: Path) -> RunFolder:
    """A folder of images, by whichever command made them."""
    federation = RunFolder(path, FEDERATE)
    return federation if federation.holds_run else RunFolder(path, "synthesize")


def finished_set_config(folder: RunFolder) -> SynthesisConfig | PublicConfig | FederatedSet:
    """The configuration of the run that a folder holds; refused unless it is done."""
    if folder.command == FEDERATE:
        return finished_federation(folder)
    stored = folder.read(CONFIG)
    if not Wanted(count=stored["count"], png=stored["png"]).made(folder):
        raise ConfigError(f"The run in {folder} is not done: go on with {folder.command_to_resume}")
    public = is_public(SynthesisAsked(), folder.path, resume=True)
    return (PublicConfig if public else SynthesisConfig).from_json(stored["config"])
