"""What a trained model needs beside its weights to be made again, wherever it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from privet.privacy import Certificate
from privet.recipes.models import ImageShape, LocalTransformer, Model
from privet.recipes.run_config import RunConfig
from privet.recipes.slots import FORMS
from privet.recipes.trained_network import trained_network
from privet.share.classifier import Classifier


@dataclass(frozen=True, kw_only=True)
class SharedModel:
    """A model without its weights, and without anything of the machine that trained it.

    Args:
        model: how the network is made.
        image_shape: of what it learned from.
        class_names: of its logits.
    """

    model: Model
    image_shape: ImageShape
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """The model of a run."""
        model = config.model
        if isinstance(model, LocalTransformer):
            model = replace(model, folder=Path(model.folder).name)
        return cls(model=model, image_shape=config.image_shape, class_names=config.class_names)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(SharedModel, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` was given."""
        made: Self = FORMS.restored(cls, body)
        return made

    def classifier(self, weights: Path, certificate: Certificate) -> Classifier:
        """With the weights of a file; a frozen encoder comes from its package."""
        network = trained_network(weights, self.model, self.image_shape, len(self.class_names))
        encoder = self.model.encoder()
        module = network if encoder is None else nn.Sequential(encoder, network)
        return Classifier(
            module=module.eval(),
            image_shape=self.image_shape,
            class_names=self.class_names,
            certificate=certificate,
        )
