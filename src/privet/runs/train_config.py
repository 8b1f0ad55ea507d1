"""What a run was asked for, and the complete configuration that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from privet.errors import ConfigError
from privet.paths import absolute, as_path
from privet.privacy import Unit
from privet.recipes.encoder_names import placed_encoders
from privet.recipes.model import Model
from privet.recipes.row_kinds import RowKind
from privet.recipes.saved_transformers import is_gpt2
from privet.recipes.slots import FORMS
from privet.recipes.training_config import TrainingConfig
from privet.runs.data_choice import DataChoice
from privet.runs.run_terms import PrivateTerms
from privet.runs.run_words import Words
from privet.runs.saved_config import completed


@dataclass(frozen=True, kw_only=True)
class Asked(Words):
    """The command line of `privet train`, in which nearly everything may be left out."""

    task: str | None = None
    model: str | None = None
    preset: str | None = None
    batch_size: float | None = None
    sample_rate: float | None = None
    epochs: float | None = None
    learning_rate: float | None = None
    clip_norm: float | None = None
    schedule: str | None = None
    ema_decay: float | None = None
    keep_last: int | None = None
    public_batch: int | None = None
    scenario: str | None = None
    synthetic: str | None = None
    warm_up: str | None = None
    warm_up_epochs: int | None = None
    warm_up_steps: str | None = None
    warm_up_augment: str | None = None
    extended: float | None = None
    release: str | None = None
    release_method: str | None = None
    release_count: int | None = None
    encoder: str | None = None
    views: str | None = None
    perturb: str | None = None
    scale: str | None = None
    origin: str | None = None
    update: str | None = None
    engine: str | None = None
    diagnostics: bool | None = None

    def placed(self) -> Self:
        """Return the same with absolute paths, also of a model's folder and an encoder's file."""
        model = None if self.model is None else _placed_model(self.model)
        encoder = None if self.encoder is None else placed_encoders(self.encoder)
        synthetic = self.data_choice.synthetic
        return replace(super().placed(), model=model, encoder=encoder, synthetic=synthetic)

    @property
    def data_choice(self) -> DataChoice:
        """The choice of where rows come from, synthetic ones too."""
        choice = replace(super().data_choice, synthetic=self.synthetic, task=self.task)
        return choice.placed()


@dataclass(frozen=True, kw_only=True)
class RunConfig(PrivateTerms):
    """Everything that decides what a run does, but for noise and the place where it lies.

    Args:
        method: the name of the method that the slots started from.
        rows: what kind of rows they are.
        class_names: class names of the private rows; of text, the words.
        model: what is trained.
        training: every setting of the training itself.
        release: the share of ε that the release of a synthetic set would cost alone; None for no
            release.
        diagnostics: whether to look at private rows outside the guarantee.
    """

    method: str
    rows: RowKind
    class_names: tuple[str, ...]
    model: Model
    training: TrainingConfig
    release: float | None = None
    diagnostics: bool = False

    @property
    def units(self) -> str:
        """The word for what sizes, rates and batches count."""
        return self.rows.noun if self.unit is Unit.EXAMPLE else "users"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with a kind in every slot."""
        body: dict[str, Any] = FORMS.plain(RunConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        made: Self = FORMS.restored(cls, completed(with_kind(body), portion=None, release=None))
        return made


def with_kind(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the kind of rows to a configuration that was saved when all rows were images."""
    if not isinstance(body, Mapping) or "image_shape" not in body:
        return body
    others = {name: value for name, value in body.items() if name != "image_shape"}
    return {**others, "rows": {"kind": "images", "shape": body["image_shape"]}}


def read_model(text: str) -> Model:
    """Read a model: a name with settings, or the folder of a saved transformer."""
    folder, _, settings = _placed_model(text).partition(":")
    if Path(folder).is_absolute():
        kind = "gpt2" if is_gpt2(Path(folder)) else "transformers"
        text = ",".join(filter(None, [f"{kind}:folder={folder}", settings]))
    model: Model = FORMS.read(Model, text, "--model")
    return model


def _placed_model(text: str) -> str:
    """Return the absolute path of a folder; anything else as it is."""
    folder, colon, settings = text.partition(":")
    if folder in FORMS.tables[Model] or not is_folder(folder):
        return text
    return f"{absolute(folder)}{colon}{settings}"


def is_folder(text: str) -> bool:
    """Whether what was typed names a folder; a name that no disk could have does not."""
    try:
        return as_path(text).is_dir()
    except ConfigError:
        return False
