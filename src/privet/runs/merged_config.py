"""What a merged set remembers: its layout, and the runs that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from privet.errors import DataError
from privet.plain_json import WRONG_VALUES
from privet.privacy import Ledger, Reservation
from privet.recipes.model import ImageShape
from privet.runs.data_choice import DataChoice
from privet.runs.run_folder import STATE, RunFolder

MERGE = "merge"
"""The name of the command."""


@dataclass(frozen=True, kw_only=True)
class MergedConfig:
    """What the images of a merge are like, and how they were made.

    Args:
        image_shape: height, width and channels of every image.
        class_names: class names of all runs, in the order in which they came; empty if there are no
            labels.
        soft_labels: whether images come with class probabilities.
        runs: what made the images of each run, by its name, as plain JSON values.
    """

    image_shape: ImageShape
    class_names: tuple[str, ...]
    soft_labels: bool
    runs: Mapping[str, Mapping[str, Any]]

    @property
    def made_by(self) -> Mapping[str, Any]:
        """What made the images of every run, as plain JSON values."""
        return {"kind": MERGE, **self.runs}

    @property
    def data(self) -> DataChoice:
        """A choice without rows: nothing is split off private ones, so that none are opened."""
        return DataChoice(source=MERGE)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "image_shape": list(self.image_shape),
            "class_names": list(self.class_names),
            "soft_labels": self.soft_labels,
            "runs": {name: dict(made_by) for name, made_by in self.runs.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> MergedConfig:
        """The configuration that `to_json` was given."""
        try:
            height, width, channels = map(int, body["image_shape"])
            return cls(
                image_shape=(height, width, channels),
                class_names=tuple(map(str, body["class_names"])),
                soft_labels=bool(body["soft_labels"]),
                runs={str(name): dict(made_by) for name, made_by in body["runs"].items()},
            )
        except WRONG_VALUES as error:
            raise DataError(f"The configuration cannot be read ({error!r}).") from None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A run that a merged set rests on.

    Args:
        name: the name of the run.
        ledger: the file that it drew on.
        reservation: the id of its reservation there.
        data: where its private rows lie, which are not for tests.
        public: what it treated as public besides what every run does.
    """

    name: str
    ledger: str
    reservation: str
    data: str
    public: tuple[str, ...] = ()

    def named_apart(self, taken: dict[str, tuple[str, str]]) -> Source:
        """Give it a number after its name if another run has it; one run keeps one name."""
        own, name, number = (self.ledger, self.reservation), self.name, 1
        while taken.setdefault(name, own) != own:
            number += 1
            name = f"{self.name} ({number})"
        return replace(self, name=name)

    def reserved(self, ledger: Ledger) -> Reservation:
        """The run's reservation in its ledger."""
        return Reservation(ledger, self.reservation)


def sources_of(folder: RunFolder) -> tuple[Source, ...]:
    """The runs that a merge rests on."""
    try:
        return tuple(
            Source(**{**each, "public": tuple(each["public"])})
            for each in folder.read(STATE)["runs"]
        )
    except WRONG_VALUES as error:
        raise DataError(f"{folder} does not say what it was merged from ({error!r}).") from None
