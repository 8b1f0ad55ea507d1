"""Transformers from a folder of `transformers`, all of them trained."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torch import nn

from privet import plain_json
from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.models import PretrainedWords, pretrained_words, teach_words, vision_transformer
from privet.paths import as_path
from privet.recipes.model import Plain, Shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True, kw_only=True)
class _Saved(Plain):
    """A transformer with a folder's weights; its outline is made without the folder."""

    treated_as_public = ("pretrained weights of the model, and whatever they were learned from",)

    folder: str
    architecture: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.architecture:
            object.__setattr__(self, "architecture", _architecture(as_path(self.folder)))

    def _config(self) -> PretrainedConfig:
        from transformers import AutoConfig

        settings = json.loads(self.architecture)
        return AutoConfig.for_model(settings.pop("model_type"), **settings)


@dataclass(frozen=True, kw_only=True)
class LocalTransformer(_Saved):
    """A ViT or DeiT from a folder.

    Args:
        folder: the folder with config.json and model.safetensors.
        architecture: the folder's config.json, so that a run needs the folder no more.
        image_size: what images are resized to; None takes the network's own size.
    """

    image_size: int | None = None

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network with the folder's weights; its head is new if it has other classes."""
        return vision_transformer(self.folder, num_classes, image_size=self.image_size)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network with any weights, without the folder."""
        return vision_transformer(self._config(), num_classes, image_size=self.image_size)


@dataclass(frozen=True, kw_only=True)
class LocalLanguageModel(_Saved):
    """A GPT-2 from a folder, over words of public text.

    Args:
        folder: the folder with config.json and model.safetensors.
        architecture: the folder's config.json, so that a run needs the folder no more.
    """

    takes = ("sequences",)
    causal: ClassVar[bool] = True

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network with the folder's weights, and an untrained table of words."""
        return pretrained_words(self.folder, num_classes, shape[0])

    def learn_words(self, network: nn.Module, words: tuple[str, ...]) -> None:
        """Start each word from its pieces, if the folder can tell them."""
        assert isinstance(network, PretrainedWords)
        teach_words(network, self.folder, words)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Make the network with any weights, without the folder."""
        return pretrained_words(self._config(), num_classes, shape[0])


def is_gpt2(folder: Path) -> bool:
    """Whether a folder's config.json names a GPT-2."""
    try:
        body = plain_json.read(folder / "config.json")
    except (OSError, ValueError):
        return False
    return isinstance(body, dict) and body.get("model_type") == "gpt2"


def _architecture(folder: Path) -> str:
    file = folder / "config.json"
    if not file.is_file():
        raise ConfigError(
            f"{folder} has no config.json; give a folder of a saved ViT, DeiT or GPT-2."
        )
    try:
        return json.dumps(plain_json.read(file), sort_keys=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(file)} cannot be read ({shown(error)}).") from None
