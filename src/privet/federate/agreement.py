"""What is the same at all parties of a federation, fixed before a private row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from privet.data import ImageSet
from privet.errors import ConfigError
from privet.public import PublicRows
from privet.recipes.encoder_names import encoder_choice
from privet.recipes.encoders import lessons_of
from privet.recipes.map_moments import SpsG
from privet.recipes.model import ImageShape
from privet.recipes.public_encoders import Once, Told
from privet.recipes.sps_settings import Sps
from privet.recipes.synthesis_methods import (
    Prepared,
    System,
    stages_of,
    takes_light_for_dark,
)
from privet.runs.synthesis_config import FORMS

CENTRALISED, DECENTRALISED = "centralised", "decentralised"
GENERATIONS = (CENTRALISED, DECENTRALISED)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Everything that is the same at every party, and public.

    Args:
        federation: the id of the federation. A party takes part in one per folder, and pays once.
        generation: centralised, where noised sums are added up and images made once; or
            decentralised, where each party makes images and these are put together.
        system: the method with all its settings.
        image_shape: the shape of every image.
        class_names: the names of the classes, in order; empty if there are no labels.
        count: images that a stage is centred on, or that each party makes.
    """

    federation: str
    generation: str
    system: System
    image_shape: ImageShape
    class_names: tuple[str, ...]
    count: int

    def __post_init__(self) -> None:
        if self.generation not in GENERATIONS:
            raise ConfigError(
                f"--generation is {self.generation!r}: choose {' or '.join(GENERATIONS)}."
            )
        if not isinstance(self.system, Sps | SpsG):
            raise ConfigError("Parties of a federation agree on --method sps-g, sps or sps-plus.")
        if self.count < 1:
            raise ConfigError(f"--count is {self.count}: give 1 or more.")
        if not self.federation.isalnum():
            raise ConfigError(f"{self.federation!r} is no name of a federation.")

    @property
    def moments(self) -> Sps | SpsG:
        """The system, as one that releases moments."""
        assert isinstance(self.system, Sps | SpsG)
        return self.system

    @property
    def num_classes(self) -> int:
        """The number of classes; 1 for images without labels."""
        return max(1, len(self.class_names))

    @property
    def num_stages(self) -> int:
        """The number of noised sums that leave each party."""
        return stages_of(self.system) or 1

    @property
    def soft_labels(self) -> bool:
        """Whether images come with class probabilities: never in a federation."""
        return False

    @property
    def made_by(self) -> Mapping[str, Any]:
        """The method and its settings, as plain JSON values."""
        made_by: dict[str, Any] = self.to_json()["system"]
        return made_by

    def prepared(self, encoder: str, public: ImageSet, memory: Once, told: Told) -> Prepared:
        """Prepare all that needs no private row, from one's own copy of the public images.

        Args:
            encoder: the encoder, as typed.
            public: images for the encoder and for principal components.
            memory: keeps an encoder that was trained before.
            told: called with the progress of its training.
        """
        choice = encoder_choice(encoder, invert=takes_light_for_dark(self.system))
        if lessons_of(choice) is not None:
            raise ConfigError(
                "--encoder private learns from one party's images, and the others would not have "
                "it: choose another."
            )
        if public.image_shape != self.image_shape:
            raise ConfigError(
                f"The public images are {_sized(public.image_shape)} and the federation's "
                f"{_sized(self.image_shape)}: give --resize and --channels as the server does."
            )
        rows = PublicRows.from_images(public)
        return Prepared(
            image_shape=self.image_shape,
            num_classes=self.num_classes,
            encoder=choice.made(self.image_shape, rows, memory, told),
            public=rows.inputs,
            count=self.count,
            proportional=self.generation == DECENTRALISED,
        )

    def to_json(self) -> dict[str, Any]:
        """The agreement as plain JSON values."""
        body: dict[str, Any] = FORMS.plain(Agreement, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read an agreement that `to_json` wrote."""
        made: Self = FORMS.restored(cls, body)
        return made


def _sized(shape: ImageShape) -> str:
    return "×".join(map(str, shape))
