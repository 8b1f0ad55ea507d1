"""The server of a federation: it asks parties, adds up what they send, and makes images of that.

It holds no private row and no budget. What it received and made stays in its folder, so that a
server that is killed goes on where it was; parties that are asked again spend nothing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from privet import __version__
from privet.data import ImageSet, load
from privet.data.options import Channels, parse_size
from privet.errors import ConfigError
from privet.federate.agreement import CENTRALISED, Agreement
from privet.federate.messages import PREPARE, Answer, Ask, centre_of
from privet.federate.rounds import AskAll, Rounds
from privet.federate.sums import added, checked_certificate, checked_images, checked_sum
from privet.hedge import NoisySum
from privet.privacy import Budget, Relation
from privet.privacy.certificate import Certificate
from privet.privacy.federated import FederatedCertificate
from privet.recipes.choices import Situation
from privet.recipes.encoder_names import encoder_choice
from privet.recipes.releases import (
    USUAL_SIZE,
    Drawn,
    Images,
    Labels,
    Release,
    Tensors,
    relative_noise,
)
from privet.recipes.synthesis_methods import Prepared, check, matched, stage_release
from privet.release import Embedding
from privet.runs.data_choice import DataChoice
from privet.runs.encoder_cache import CachedEncoders, cache_folder
from privet.runs.folder_memory import FolderMemory, probe_of
from privet.runs.listening import Listener, Silent
from privet.runs.run_folder import CERTIFICATE, CONFIG, RESULT, STEPS, SYNTHETIC, RunFolder
from privet.runs.run_words import two_digits
from privet.runs.set_card import write_card
from privet.runs.synthesis_config import chosen_system
from privet.runs.synthesis_images import write_shards, write_sheet
from privet.runs.synthesis_stage import require_memory
from privet.runs.teachers import origins_of

_SCALE = "noise scale"
_SHARD = 1000


@dataclass(frozen=True, kw_only=True)
class Server:
    """The settings of a federation, as its server has them.

    Args:
        out: the folder of the server.
        public: a set that all parties have too, image for image.
        count: the number of images to make.
        parties: how many parties are expected.
        epsilon: the ε that each is expected to spend; sizes of the release follow from it.
        delta: the δ that each is expected to have.
        method: sps-g, sps or sps-plus, with settings.
        encoder: the encoder, the same at every party.
        generation: centralised or decentralised.
        declared_size: the number of all parties' images as they declare it.
        classes: names with commas between them; `None` for those of the public set.
        resize: one size for all images.
        channels: rgb or grey.
        at_least: stop if fewer parties answer; `None` for all that are expected.
        seconds: how long a party has for an answer.
        attempts: how often a party that does not answer is asked.
    """

    out: str
    public: str
    count: int
    parties: int
    epsilon: float
    delta: float
    method: str = "sps-g"
    encoder: str = "conv"
    generation: str = CENTRALISED
    declared_size: float | None = None
    classes: str | None = None
    resize: str | None = None
    channels: str | None = None
    at_least: int | None = None
    seconds: float = 600.0
    attempts: int = 2

    def __post_init__(self) -> None:
        if self.parties < 1 or not 1 <= self.least <= self.parties:
            raise ConfigError(
                f"--parties is {self.parties} and --at-least {self.least}: give at least 1, and "
                "no more than there are parties."
            )
        if self.count < 1:
            raise ConfigError(f"--count is {self.count}: give 1 or more.")
        if not 0 < self.seconds < math.inf or self.attempts < 1:
            raise ConfigError("--seconds must be above 0 and --attempts 1 or more.")

    @property
    def least(self) -> int:
        """The number of parties without which nothing is made."""
        return self.parties if self.at_least is None else self.at_least

    def public_images(self) -> ImageSet:
        """Read the public images, as parties read them."""
        return load(
            self.public,
            resize=None if self.resize is None else parse_size(self.resize),
            channels=None if self.channels is None else Channels(self.channels),
            require_labels=False,
        )

    def agreement(self, public: ImageSet) -> Agreement:
        """Make a new agreement, with sizes that fit the noise of all parties' sums together."""
        names = public.class_names or ()
        if self.classes is not None:
            names = tuple(each.strip() for each in self.classes.split(","))
        if len(set(names)) < len(names) or "" in names:
            raise ConfigError(f"--classes is {self.classes!r}: give different names.")
        size = two_digits(self.declared_size)
        situation = Situation(
            relative_noise=self._relative_noise(size, max(1, len(names))),
            size=size or USUAL_SIZE,
            num_classes=max(1, len(names)),
            image_shape=public.image_shape,
        )
        system = chosen_system(self.method, "auto", situation, self.epsilon).settings
        check(system, public.image_shape)
        shared = self.generation == CENTRALISED
        return Agreement(
            federation=uuid.uuid4().hex,
            generation=self.generation,
            system=system,
            image_shape=public.image_shape,
            class_names=names,
            count=self.count if shared else math.ceil(self.count / self.parties),
        )

    def _relative_noise(self, size: float | None, num_classes: int) -> float:
        """Relative noise of the sums that images are made of.

        Of all parties' sums together it is √parties times that of one; of one party's sum it is
        larger, since that party has only its share of the images.
        """
        budget, relation = Budget(epsilon=self.epsilon, delta=self.delta), Relation.ADD_REMOVE
        noise = relative_noise(budget, relation, size, num_classes)
        centralised = self.generation == CENTRALISED
        return noise * (math.sqrt(self.parties) if centralised else self.parties)


@dataclass(frozen=True, kw_only=True)
class FederationResult:
    """The result of a federation.

    Args:
        folder: the folder of the server.
        certificate: the certificates of all parties in the set.
        summary: what was made and by whom, as JSON values.
    """

    folder: Path
    certificate: FederatedCertificate
    summary: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {"folder": str(self.folder), **self.summary}

    def in_words(self) -> dict[str, object]:
        """The result as names and values, for a terminal."""
        left = [f"{name} ({why})" for name, why in self.certificate.left_out.items()]
        return {
            "images": f"{self.summary['images']:,} in {self.folder / SYNTHETIC}",
            "parties": f"{', '.join(self.certificate.parties)} of {self.summary['expected']}",
            "left out": ", ".join(left) or "nobody",
            "guarantee": self.certificate.statement,
            "certificate": self.folder / CERTIFICATE,
        }


def conduct(server: Server, ask_all: AskAll, listener: Listener | None = None) -> FederationResult:
    """Conduct a federation from beginning to end, or the rest of one.

    Args:
        server: the settings of the federation.
        ask_all: asks parties and waits for their replies.
        listener: told of progress.
    """
    folder, listener = RunFolder(Path(server.out), "federate"), listener or Silent()
    with folder.claimed():
        public = server.public_images()
        agreement = _begun(server, public, folder)
        if folder.has(RESULT):
            listener.note("The federation is done already.")
            return finished(folder)
        shared = DataChoice(source=server.public, public=server.public)
        origins = origins_of(encoder_choice(server.encoder), shared)
        memory = FolderMemory(folder, agreement.image_shape, origins)
        encoders = CachedEncoders(memory, cache_folder(), listener.note)
        prepared = agreement.prepared(
            server.encoder, public, encoders, listener.progress("encoder")
        )
        rounds = Rounds(ask_all, server.least, server.attempts, listener.note)
        work = _Work(server, agreement, prepared, folder, memory, rounds)
        made = work.summed(listener) if agreement.generation == CENTRALISED else work.put_together()
        return work.written(made, listener)


def finished(folder: RunFolder) -> FederationResult:
    """Read the result of a federation from the server's folder."""
    return FederationResult(
        folder=folder.path,
        certificate=FederatedCertificate.from_json(folder.read(CERTIFICATE)),
        summary=folder.read(RESULT),
    )


def _begun(server: Server, public: ImageSet, folder: RunFolder) -> Agreement:
    """The agreement in the folder; a new one is made if there is none."""
    folder.refuse_other_layouts()
    if folder.holds_run:
        stored = folder.read(CONFIG)
        differs = [name for name, each in _saved(server).items() if stored["server"][name] != each]
        free = {"out", "seconds", "attempts", "at_least"}
        if differs and not set(differs) <= free:
            raise ConfigError(
                f"{folder} holds a federation in which {sorted(set(differs) - free)[0]} is "
                "another: go on with the same settings, or choose another --out."
            )
        return Agreement.from_json(stored["agreement"])
    folder.check_free(force=False)
    agreement = server.agreement(public)
    body = {"schema": folder.schema, "privet_version": __version__, "server": _saved(server)}
    folder.write(CONFIG, {**body, "agreement": agreement.to_json()})
    return agreement


def _saved(server: Server) -> dict[str, Any]:
    """The settings as the folder keeps them, with a declared size rounded."""
    return {**asdict(server), "declared_size": two_digits(server.declared_size)}


@dataclass(eq=False)
class _Work:
    """The server's work, in a folder that no other process works in."""

    server: Server
    agreement: Agreement
    prepared: Prepared
    folder: RunFolder
    memory: FolderMemory
    rounds: Rounds
    parties: dict[str, Certificate] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    stages: list[list[str]] = field(default_factory=list)

    def summed(self, listener: Listener) -> Drawn:
        """Make images that match the sums of all parties, stage after stage."""
        system = self.agreement.moments
        return matched(
            system, self.prepared, self._sum_of, self.memory, listener.progress("matching")
        )

    def _sum_of(self, embedding: Embedding, stage: int) -> NoisySum:
        """The sum of all parties in a stage, asked for once: it stays, whoever comes late."""
        clip_norm = stage_release(self.agreement.moments, self.prepared, stage).clip_norm
        release = Release(embedding, clip_norm)
        require_memory(embedding.num_coordinates)

        def make() -> Tensors:
            self.rounds.agree(self._prepare())
            probe, centre = probe_of(embedding, self.agreement.image_shape), centre_of(embedding)
            ask = Ask(agreement=self.agreement, stage=stage, probe=probe, centre=centre)
            found = self.rounds.gathered(ask, lambda each: checked_sum(each, release))
            self._note(f"sum-{stage}", found)
            total = added([value for _, value in found.values()])
            scale = torch.tensor(total.noise_scale, dtype=torch.float64)
            return {**total.blocks, _SCALE: scale}

        kept = dict(self.memory.once(f"sum-{stage}", make))
        scale = float(kept.pop(_SCALE))
        self._noted(f"sum-{stage}")
        return NoisySum(kept, scale)

    def _prepare(self) -> Ask:
        """A message that asks parties whether they have the embedding of the first stage."""
        first = stage_release(self.agreement.moments, self.prepared, 0, memory=self.memory)
        probe = probe_of(first.embedding, self.agreement.image_shape)
        return Ask(agreement=self.agreement, stage=PREPARE, probe=probe)

    def put_together(self) -> Drawn:
        """Put all parties' images together, in an order that mixes them."""

        def make() -> Tensors:
            self.rounds.agree(Ask(agreement=self.agreement, stage=PREPARE))
            ask = Ask(agreement=self.agreement, stage=0)
            found = self.rounds.gathered(ask, lambda each: checked_images(each, self.agreement))
            self._note("images", found)
            sets = [value for _, value in found.values()]
            return {
                "images": torch.cat([torch.from_numpy(each.images[:]) for each in sets]),
                "labels": torch.cat([torch.from_numpy(each.labels) for each in sets]),
            }

        kept = self.memory.once("images", make)
        self._noted("images")
        order = torch.randperm(len(kept["labels"]), generator=torch.Generator().manual_seed(0))
        images, labels = (kept[name][order].numpy() for name in ("images", "labels"))

        def batch(number: int) -> tuple[Images, Labels]:
            rows = slice(number * _SHARD, (number + 1) * _SHARD)
            return images[rows], labels[rows]

        return Drawn(batch=batch, batch_size=_SHARD)

    def written(self, made: Drawn, listener: Listener) -> FederationResult:
        """Write the images and each party's guarantee; return the result."""
        certificate = FederatedCertificate(parties=self.parties, left_out=self.left_out)
        count = self.server.count
        if self.agreement.generation != CENTRALISED:
            count = min(count, len(self.parties) * self.agreement.count)
        self.folder.write(CERTIFICATE, certificate.to_json())
        write_shards(made, self.agreement, self.folder, listener, count)
        write_sheet(self.folder)
        write_card(self.folder, self.agreement, count)
        summary = {
            "schema": "privet.federation/1",
            "generation": self.agreement.generation,
            "method": self.agreement.made_by["kind"],
            "images": count,
            "private": certificate.private,
            "expected": self.server.parties,
            "parties": certificate.guarantees,
            "left_out": self.left_out,
            "stages": self.stages,
            "statement": certificate.statement,
        }
        self.folder.write(RESULT, summary)
        return finished(self.folder)

    def _note(self, name: str, found: Mapping[str, tuple[Answer, object]]) -> None:
        """Note who is in what is about to be remembered, and who is left out."""
        certificates = {party: checked_certificate(each) for party, (each, _) in found.items()}
        body = {
            "parties": {party: each.to_json() for party, each in certificates.items()},
            "left_out": self.rounds.left_out,
        }
        self.folder.write(f"{STEPS}/{name}.json", body)

    def _noted(self, name: str) -> None:
        body = self.folder.read(f"{STEPS}/{name}.json")
        self.parties |= {k: Certificate.from_json(each) for k, each in body["parties"].items()}
        self.left_out |= body["left_out"]
        self.stages.append(list(body["parties"]))
