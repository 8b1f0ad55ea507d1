"""What `privet synthesize` was asked for, and the complete configuration that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Self

from privet.errors import ConfigError
from privet.privacy import Budget, Relation
from privet.recipes.encoders import ENCODERS, EncoderChoice, Saved
from privet.recipes.forms import Forms
from privet.recipes.models import ImageShape
from privet.recipes.releases import relative_noise
from privet.recipes.run_config import Words, absolute
from privet.recipes.run_settings import relation_of, two_digits
from privet.recipes.sets import DataChoice, Sets
from privet.recipes.sps_g import SpsG
from privet.recipes.synthesis_methods import SYSTEMS, System

FORMS = Forms({System: SYSTEMS, EncoderChoice: ENCODERS})
_FILE = ".safetensors"


@dataclass(frozen=True, kw_only=True)
class SynthesisAsked(Words):
    """The command line, in which nearly everything may be left out."""

    encoder: str | None = None
    encoder_data: str | None = None

    def placed(self) -> Self:
        """Files in full."""
        data = None if self.encoder_data is None else _placed(self.encoder_data)
        encoder = self.encoder
        if encoder is not None and _is_file(encoder):
            encoder = absolute(encoder)
        return replace(super().placed(), encoder=encoder, encoder_data=data)


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig:
    """Everything that decides what a run makes, but for noise, place and number of images.

    Args:
        system: the method and its settings.
        data: where images come from.
        image_shape: of every image.
        class_names: of the private images.
        encoder: what looks at images.
        encoder_data: another public set that it learns from.
        budget: what the run may spend.
        relation: which data sets are neighbours.
        ledger: the owner's, or none for one of the run's own.
        declared_size: the number of private images as the owner declares it, to two digits.
        seeded: whether noise comes from a seed, so that the run is not private.
    """

    system: System
    data: DataChoice
    image_shape: ImageShape
    class_names: tuple[str, ...]
    encoder: EncoderChoice
    budget: Budget
    relation: Relation
    encoder_data: str | None = None
    ledger: str | None = None
    declared_size: float | None = None
    seeded: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(SynthesisConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        made: Self = FORMS.restored(cls, body)
        return made


def resolved(asked: SynthesisAsked, sets: Sets, *, seeded: bool) -> SynthesisConfig:
    """The complete configuration."""
    if asked.method is None:
        raise ConfigError(f"Give --method: {', '.join(SYSTEMS)}.")
    config = SynthesisConfig(
        system=_system(asked.method),
        data=asked.data_choice,
        image_shape=sets.private.image_shape,
        class_names=sets.private.class_names or (),
        encoder=_encoder(asked.encoder or "conv"),
        encoder_data=None if asked.encoder_data is None else _placed(asked.encoder_data),
        budget=asked.budget,
        relation=relation_of(asked),
        ledger=None if asked.ledger is None else absolute(asked.ledger),
        declared_size=two_digits(asked.declared_size),
        seeded=seeded,
    )
    return replace(config, system=_fitted(config))


def _fitted(config: SynthesisConfig) -> System:
    """With the sizes that noise allows, where none were given."""
    system = config.system
    if not isinstance(system, SpsG):
        return system
    classes = len(config.class_names)
    noise = relative_noise(config.budget, config.relation, config.declared_size, classes)
    return system.fitted(noise, config.image_shape)


def _placed(source: str) -> str:
    """A built-in name, or a path that is found from any folder."""
    return DataChoice(source=source).placed().source


def _system(text: str) -> System:
    """Nested settings start from those of the system that is named."""
    kind = SYSTEMS.get(text.partition(":")[0])
    usual = {} if kind is None else vars(kind.cls())
    defaults = {type(each): each for each in usual.values() if is_dataclass(each)}
    system: System = FORMS.read(System, text, "--method", defaults)
    return system


def _encoder(text: str) -> EncoderChoice:
    if _is_file(text):
        return Saved(file=absolute(text))
    encoder: EncoderChoice = FORMS.read(EncoderChoice, text, "--encoder")
    return encoder


def _is_file(text: str) -> bool:
    return text.endswith(_FILE) and text.partition(":")[0] not in ENCODERS
