"""What the server of a federation made, from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privet.errors import ConfigError
from privet.recipes.model import ImageShape
from privet.runs.data_choice import DataChoice
from privet.runs.run_folder import CONFIG, RESULT, SYNTHETIC, RunFolder

FEDERATE = "federate"


@dataclass(frozen=True, kw_only=True)
class FederatedSet:
    """A set that several parties' releases went into.

    Args:
        data: where images lie, and the public ones that all parties have.
        image_shape: height, width and channels of every image.
        class_names: names of the labels; empty if there are no labels.
        made_by: the method, under `kind`, and its settings, as plain JSON values.
    """

    data: DataChoice
    image_shape: ImageShape
    class_names: tuple[str, ...]
    made_by: Mapping[str, Any]
    soft_labels: bool = False


def finished_federation(folder: RunFolder) -> FederatedSet:
    """The set in a server's folder; refused unless it is done, and in a party's own folder."""
    stored = folder.read(CONFIG)
    if "server" not in stored:
        raise ConfigError(
            f"{folder} holds a party's side of a federation: give the server's folder, where the "
            "set lies."
        )
    if not folder.has(RESULT):
        raise ConfigError(
            f"The federation in {folder} is not done: start the server there again, with the same "
            "settings."
        )
    server, agreement = stored["server"], stored["agreement"]
    height, width, channels = agreement["image_shape"]
    return FederatedSet(
        data=DataChoice(
            source=str(folder / SYNTHETIC),
            public=server["public"],
            resize=server["resize"],
            channels=server["channels"],
        ),
        image_shape=(height, width, channels),
        class_names=tuple(agreement["class_names"]),
        made_by=agreement["system"],
    )
