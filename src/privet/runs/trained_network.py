"""The network of a finished run of `privet train`, made again from what lies in its folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.recipes.model import Model, Shape
from privet.runs.run_folder import CONFIG, RESULT, RunFolder
from privet.runs.train_config import RunConfig
from privet.runs.weights import all_weights, load_weights, require_weights


def finished_config(folder: RunFolder) -> RunConfig:
    """The configuration of a run of `privet train`; refused unless it is done."""
    folder.refuse_other_layouts()
    if not folder.holds_run:
        raise ConfigError(f"{folder} holds no run of 'privet train': give the folder of one.")
    if not folder.has(RESULT):
        raise ConfigError(f"The run in {folder} is not done: go on with {folder.command_to_resume}")
    return RunConfig.from_json(folder.read(CONFIG).get("config", {}))


def trained_network(weights: Path, model: Model, shape: Shape, num_classes: int) -> nn.Module:
    """Make the network that learned, with the weights of a file; nothing is unpickled."""
    tensors = saved_tensors(weights)
    with torch.device("meta"):  # before memory is taken for what a file says of sizes
        require_weights(all_weights(model.outline(shape, num_classes)), tensors)
    network = model.outline(shape, num_classes).eval()
    load_weights(network, tensors)
    return network


def saved_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, by name."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{shown(path)} cannot be read ({error}): train again.") from None
