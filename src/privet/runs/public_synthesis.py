"""`privet synthesize --method edm|ddpm`: public images from public ones, and nothing private."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from privet.data import ImageSet
from privet.errors import ConfigError
from privet.privacy.certificate import NOTHING_PRIVATE, nothing_private
from privet.public import PublicRows
from privet.recipes.forms import Forms, Kind
from privet.recipes.model import ImageShape
from privet.recipes.presets import named
from privet.recipes.public_ddpm import PublicDdpm, ddpm
from privet.recipes.public_edm import PublicEdm, edm
from privet.recipes.releases import Drawn, Memory
from privet.runs.data_choice import DataChoice
from privet.runs.folder_memory import FolderMemory
from privet.runs.listening import Listener
from privet.runs.run_folder import (
    CERTIFICATE,
    CONFIG,
    PNG,
    RESULT,
    SAMPLES,
    SYNTHETIC,
    RunFolder,
)
from privet.runs.run_metrics import Metrics
from privet.runs.saved_config import completed
from privet.runs.session import Session, usable_device
from privet.runs.sets import Sets, read_sets
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_course import synthesized
from privet.runs.synthesis_curves import Recorded
from privet.runs.synthesis_images import Wanted, check_space, write_images
from privet.runs.team_memory import apart, shared

System = PublicEdm | PublicDdpm
METHODS = {"edm": Kind(PublicEdm), "ddpm": Kind(PublicDdpm)}
FORMS = Forms({System: METHODS})
_PRESETS: dict[str, dict[str, Callable[[], System]]] = {
    "edm": {"auto": PublicEdm, "paper": PublicEdm.as_published},
    "ddpm": {"auto": PublicDdpm},  # DOPE-SGD does not say how it trained its own
}
_NOT_FOR_IT = (
    *("epsilon", "delta", "ledger", "portion", "relation", "declared_size", "public"),
    *("encoder", "encoder_data", "classes", "soft_labels", "target", "schema", "user"),
)


@dataclass(frozen=True, kw_only=True)
class PublicConfig:
    """Everything that decides what a run makes, but for the number of images.

    Args:
        data: where public images come from.
        system: the method and its settings.
        image_shape: height, width and channels of every image.
        class_names: names of the labels; empty if there are no labels.
    """

    data: DataChoice
    system: System
    image_shape: ImageShape
    class_names: tuple[str, ...]
    seeded: bool = False

    soft_labels = False

    @property
    def method(self) -> str:
        """The name of the system."""
        [name] = [name for name, kind in METHODS.items() if isinstance(self.system, kind.cls)]
        return name

    @property
    def made_by(self) -> Mapping[str, Any]:
        """The method and its settings, as plain JSON values."""
        made_by: dict[str, Any] = self.to_json()["system"]
        return made_by

    @property
    def num_classes(self) -> int:
        """How many classes are drawn; 1 for images without labels."""
        return max(1, len(self.class_names))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body: dict[str, Any] = FORMS.plain(PublicConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        made: Self = FORMS.restored(cls, completed(body))
        return made


@dataclass(frozen=True, kw_only=True)
class PublicResult:
    """What a run on public images left.

    Args:
        folder: where it lies.
        summary: the result in a few words, by name.
    """

    folder: Path
    summary: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"folder": str(self.folder), **self.summary}

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        forms = (SYNTHETIC, PNG) if self.summary["png"] else (SYNTHETIC,)
        places = " and ".join(str(self.folder / each) for each in forms)
        return {
            "guarantee": NOTHING_PRIVATE,
            "images": f"{self.summary['images']:,} in {places}",
            "samples": self.folder / SAMPLES,
        }


@dataclass(frozen=True, kw_only=True)
class PublicQuote:
    """What a run on public images would do."""

    config: PublicConfig
    images: int
    parameters: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            **self.config.to_json()["system"],
            "public_images": self.images,
            "parameters": self.parameters,
            "guarantee": NOTHING_PRIVATE,
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        training = self.config.system.training
        height, width, channels = self.config.image_shape
        return {
            "method": self.config.method,
            "public images": f"{self.images:,} of {height}×{width}×{channels}",
            "parameters": f"{self.parameters:,}",
            "training": f"{training.iterations:,} steps of {training.batch_size} images",
            "guarantee": NOTHING_PRIVATE,
        }


def quote_public(asked: SynthesisAsked) -> PublicQuote:
    """Decide all that is decided before anything is done, refusals included."""
    stage = staged(asked)
    config = stage.config
    network = config.system.first_weights(config.num_classes, config.image_shape)
    return PublicQuote(
        config=config,
        images=len(stage.sets.private),
        parameters=sum(each.numel() for each in network.parameters()),
    )


def is_public(asked: SynthesisAsked, out: Path | None, *, resume: bool) -> bool:
    """Whether a run, or the one that it goes on with, reads public images alone."""
    method = asked.method
    if method is None and resume and out is not None:
        folder = RunFolder(out, "synthesize")
        method = asked.over(folder.read(CONFIG)["asked"]).method if folder.holds_run else None
    return method is not None and _name(method) in METHODS


def _name(method: str) -> str:
    return method.partition(":")[0]


def synthesize_public(
    asked: SynthesisAsked,
    session: Session,
    listener: Listener,
    *,
    count: int | None = None,
    png: bool = False,
) -> PublicResult:
    """Start a run, go on with one, or make more images of a finished one.

    Args:
        asked: what was asked for; DATA are the public images.
        session: how it is carried out.
        listener: told of progress.
        count: how many images there shall be; None keeps the number of the run that goes on.
        png: write them as PNG files too; a run that did before goes on to.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    if session.noise_seed is not None:
        raise ConfigError("A method of public images adds no noise: leave out --noise-seed.")
    return synthesized(_PublicImages(), asked, session, listener, count=count, png=png)


@dataclass(frozen=True, kw_only=True)
class PublicStage:
    """What a run works with.

    Args:
        asked: what was asked for.
        config: the complete configuration that follows from it.
        sets: the images, of which none is private.
    """

    asked: SynthesisAsked
    config: PublicConfig
    sets: Sets[ImageSet]

    def require_room(self) -> None:
        """Refuse nothing: no ledger pays for public images."""

    def drawn(self, memory: Memory, listener: Listener, device: torch.device) -> Drawn:
        """Train a diffusion model, or load it, and return what draws images."""
        learn = partial(
            edm if isinstance(self.config.system, PublicEdm) else ddpm,
            PublicRows.from_images(self.sets.private),
            num_classes=self.config.num_classes,
            memory=memory,
            progress=listener.progress,
            device=device,
        )
        return learn(settings=self.config.system)


class _PublicImages:
    """The making of public images, by a diffusion model."""

    noun = "images"

    def staged(self, asked: SynthesisAsked, *, seeded: bool, unread: bool) -> PublicStage:
        return staged(asked)

    def saved(self, body: Mapping[str, Any]) -> PublicConfig:
        return PublicConfig.from_json(body)

    def check(
        self, stage: PublicStage, session: Session, folder: RunFolder, wanted: Wanted
    ) -> None:
        check_space(folder, stage.config, wanted)

    def begun(self, stage: PublicStage, folder: RunFolder, wanted: Wanted) -> None:
        """Note nothing: the configuration is all that a run must find again."""

    def found(self, folder: RunFolder) -> None:
        """Find nothing else."""

    def run(
        self,
        stage: PublicStage,
        state: None,
        session: Session,
        folder: RunFolder,
        listener: Listener,
        wanted: Wanted,
    ) -> PublicResult:
        team, metrics = session.team, Metrics(folder)
        if team.size > 1:
            body = {"public": True, "asked": stage.asked.placed().given}
            team.tell(json.dumps(body).encode())
        for sentence in stage.sets.notes:
            listener.note(sentence)
        listener.note("DATA are taken as public: what is made of them may repeat them.")
        memory = shared(FolderMemory(folder, stage.config.image_shape), team)
        drawn = stage.drawn(memory, Recorded(listener, metrics), usable_device(session.device))
        folder.write(CERTIFICATE, nothing_private())
        with apart(memory):
            write_images(drawn, stage.config, folder, listener, wanted, team)
        metrics.show_samples(wanted.count)
        summary = {
            "schema": "privet.result/1",
            "method": stage.config.method,
            "guarantee": NOTHING_PRIVATE,
            "images": wanted.count,
            "png": wanted.png,
        }
        folder.write(RESULT, summary)
        return PublicResult(folder=folder.path, summary=summary)

    def done(self, folder: RunFolder, state: None, wanted: Wanted) -> PublicResult:
        Metrics(folder).show_samples(wanted.count)
        return PublicResult(folder=folder.path, summary=folder.read(RESULT))


def staged(asked: SynthesisAsked) -> PublicStage:
    """Complete the configuration, and read the images."""
    assert asked.method is not None
    method = _name(asked.method)
    given = [name for name in _NOT_FOR_IT if getattr(asked, name) is not None]
    if given:
        option = "--" + given[0].replace("_", "-")
        raise ConfigError(
            f"--method {method} reads public images alone, which are DATA: leave out {option}."
        )
    presets = _PRESETS[method]
    start = presets[named(presets, asked.preset or "auto", "--preset")]()
    nested = {type(each): each for each in (start, start.training, start.sampler)}
    system: System = FORMS.read(System, asked.method, "--method", nested)
    sets = read_sets(asked.data_choice, require_labels=False)
    images = sets.private  # so called wherever sets are read; here they are DATA, and public
    config = PublicConfig(
        data=asked.data_choice,
        system=system,
        image_shape=images.image_shape,
        class_names=(images.class_names or ()) if sets.labelled else (),
    )
    return PublicStage(asked=asked, config=config, sets=sets)
