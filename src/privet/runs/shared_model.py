"""What a trained model needs beside its weights to be made again, wherever it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from privet.privacy import Certificate
from privet.recipes.model import Model
from privet.recipes.row_kinds import ImageRows, RowKind, TableRows, TextRows
from privet.recipes.saved_transformers import LocalLanguageModel, LocalTransformer
from privet.recipes.slots import FORMS
from privet.runs.train_config import RunConfig, with_kind
from privet.runs.trained_network import trained_network
from privet.share.classifier import Classifier
from privet.share.table_classifier import TableClassifier
from privet.share.word_model import WordModel

Shared = Classifier | TableClassifier | WordModel
"""What a run's model is loaded as."""


@dataclass(frozen=True, kw_only=True)
class SharedModel:
    """A model without its weights, and without anything of the machine that trained it.

    Args:
        model: how the network is made.
        rows: what kind of rows it learned from.
        class_names: names of its logits.
    """

    model: Model
    rows: RowKind
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Take the model of a run, without its place on a disk."""
        model = config.model
        if isinstance(model, LocalTransformer | LocalLanguageModel):
            model = replace(model, folder=Path(model.folder).name)
        return cls(model=model, rows=config.rows, class_names=config.class_names)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(SharedModel, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` was given."""
        made: Self = FORMS.restored(cls, with_kind(body))
        return made

    def classifier(self, weights: Path, certificate: Certificate) -> Shared:
        """Make the model with the weights of a file; a frozen encoder comes from its package."""
        network = trained_network(weights, self.model, self.rows.shape, len(self.class_names))
        if isinstance(self.rows, TableRows):
            return TableClassifier(module=network, schema=self.rows.schema, certificate=certificate)
        if isinstance(self.rows, TextRows):
            return WordModel(
                module=network,
                vocabulary=self.class_names,
                length=self.rows.length,
                causal=self.rows.causal,
                certificate=certificate,
            )
        assert isinstance(self.rows, ImageRows)
        encoder = self.model.encoder()
        module = network if encoder is None else nn.Sequential(encoder, network)
        return Classifier(
            module=module.eval(),
            image_shape=self.rows.shape,
            class_names=self.class_names,
            certificate=certificate,
        )
