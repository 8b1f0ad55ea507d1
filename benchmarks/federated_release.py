"""Claim: parties that add up noised sums make nearly the set that all their rows would make.

    python benchmarks/federated_release.py --data FOLDER --public FOLDER [--only TEXT]

FashionMNIST, five parties of 12,000 images each, alike (iid) or with two to four classes each
(apart); ε = 1 and 4 for every party, δ = 1e-5, add-remove. One party alone, decentralised and
centralised generation, and one hedge around all rows (SPS, section 5.5 and appendix B.6); FedDM and
FedLAP-DP, whose cost composes over all rounds, beside them. The encoder is the one that comes with
Privet, which has seen neither photographs nor clothes; for SPS+, which must tell light from dark,
it is the ablations' own. Generators and pixels are trained for a few minutes: what is compared are
the ways, not the best that a method can do. Folders and options are
those of release_table.py; rows are kept as they are done. `--tiny` is for a try: nothing of it is
kept.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import machine
from federated_baselines import FEDDM, FEDLAP, Distillation, Distilled, distilled
from kept_rows import Kept, arguments, do_missing
from privet.augment import to_float
from privet.data import ImageSet
from privet.federate import added
from privet.hedge import Hedge, NoisySum
from privet.measure import predictions
from privet.models import glyph_encoder
from privet.privacy import Certificate, certify
from privet.privacy.federated import FederatedCertificate
from privet.recipes.choices import Situation
from privet.recipes.map_moments import SpsG
from privet.recipes.releases import NoMemory, planned_sums, relative_noise, released
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.recipes.synthesis_methods import (
    Prepared,
    System,
    matched,
    run,
    stage_release,
    stages_of,
)
from privet.release import Embedding
from privet.synthesis import GeneratorTraining
from release_ablations import CNN, SHORT_UPRIGHT, SPS_PLUS, STEPS
from release_classifiers import Examination, with_steps
from release_data import public_rows, sets, taught
from release_making import DELTA, Releases, Steps, Terms

OUT = machine.RESULTS / "federated_release.json"
PRIVATE, PUBLIC = "fashion_mnist", "photos+letters"
NUM_PARTIES, PARTY_SIZE, IMAGES, PIXEL_IMAGES = 5, 12_000, 5000, 300
COMPONENT_IMAGES = 10_000
IID, APART = "iid", "apart"
# Each class lies with one to three parties, and each party has two to four of them.
CLASSES_OF = ((0, 1), (2, 3, 4), (4, 5, 6, 7), (7, 8), (9, 0, 8))
ALONE, DECENTRALISED, CENTRALISED, POOLED = "alone", "decentralised", "centralised", "pooled"
WAYS = (ALONE, DECENTRALISED, CENTRALISED, POOLED)
CLASSIFIERS = ("logistic", "cnn")
SPS_G = SpsG(training=GeneratorTraining(iterations=200, per_class=10))
SYSTEMS: dict[str, System] = {"sps-g": SPS_G, "sps-plus": SPS_PLUS}
BASELINES = {name: Distillation(method=name) for name in (FEDDM, FEDLAP)}
Set = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class Scale:
    """How large everything is.

    Args:
        party: images of each party.
        images: of a set that a generator makes.
        pixel_images: of a set of pixels that are optimised one by one.
        steps: of a classifier's training.
    """

    party: int = PARTY_SIZE
    images: int = IMAGES
    pixel_images: int = PIXEL_IMAGES
    steps: int = STEPS

    def system(self, method: str) -> System:
        """A release's settings."""
        system = SYSTEMS[method]
        if self.party == PARTY_SIZE:
            return system
        if isinstance(system, SpsPlus):
            return replace(system, iterations=2, later_iterations=1)
        return replace(SPS_G, training=replace(SPS_G.training, iterations=2))

    def baseline(self, method: str) -> Distillation:
        """A baseline's settings."""
        found = BASELINES[method]
        return found if self.party == PARTY_SIZE else replace(found, rounds=2, local_steps=2)

    def count(self, system: System) -> int:
        """Images of a set."""
        return self.pixel_images if isinstance(system, Sps) else self.images


TINY = Scale(party=200, images=200, pixel_images=100, steps=10)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way of making one set.

    Args:
        split: how rows are divided among parties.
        method: of a release, or a baseline.
        way: who adds up, and who makes images.
        epsilon: of every party.
        scale: of everything.
    """

    split: str
    method: str
    way: str
    epsilon: float
    scale: Scale = Scale()

    @property
    def key(self) -> dict[str, object]:
        """What tells rows apart."""
        names = ("split", "method", "way", "epsilon")
        return {name: getattr(self, name) for name in names}

    @property
    def described(self) -> str:
        """Its settings."""
        known = BASELINES if self.method in BASELINES else SYSTEMS
        seen = f"{SHORT_UPRIGHT if self.method == 'sps-plus' else 'glyphs'}, {COMPONENT_IMAGES}"
        return f"{known[self.method]}, {CNN}, {self.scale}, {CLASSES_OF}, {seen}"


def all_rows(scale: Scale) -> Iterator[Row]:
    """Headline rows first."""
    for epsilon in (1.0, 4.0):
        for split in (IID, APART):
            for method in SYSTEMS:
                for way in WAYS:
                    # Pooled does not depend on how rows are divided.
                    if way != POOLED or split == IID:
                        yield Row(split=split, method=method, way=way, epsilon=epsilon, scale=scale)
            for method in BASELINES:
                if method == FEDDM or epsilon == 1.0:  # FedLAP-DP takes the longest of all
                    yield Row(
                        split=split, method=method, way="rounds", epsilon=epsilon, scale=scale
                    )


@lru_cache(maxsize=2)
def places(split: str, party: int, labels: bytes) -> tuple[NDArray[np.int64], ...]:
    """Rows of each party, none of them twice."""
    known = np.frombuffer(labels, np.int64)
    order = np.random.default_rng(0).permutation(len(known))
    if split == IID:
        return tuple(order[each * party : (each + 1) * party] for each in range(NUM_PARTIES))
    shares = {label: [k for k, own in enumerate(CLASSES_OF) if label in own] for label in range(10)}
    found: list[list[NDArray[np.int64]]] = [[] for _ in CLASSES_OF]
    for label, owners in shares.items():
        rows = order[known[order] == label]
        for owner, part in zip(owners, np.array_split(rows, len(owners)), strict=True):
            found[owner].append(part)
    sizes = [sum(map(len, parts)) for parts in found]
    most = party * NUM_PARTIES / sum(sizes)
    return tuple(
        np.concatenate([part[: round(most * len(part))] for part in parts]) for parts in found
    )


@dataclass(frozen=True)
class Study:
    """Where data lies."""

    data: Path
    public: Path

    def parties(self, row: Row) -> list[ImageSet]:
        """Each one's own images."""
        private = sets(PRIVATE, self.data)[0]
        assert private.labels is not None
        chosen = places(row.split, row.scale.party, private.labels.tobytes())
        return [private.take(each) for each in chosen]

    def prepared(
        self, system: System, private: ImageSet, count: int, *, proportional: bool
    ) -> Prepared:
        """What needs no private row."""
        upright = isinstance(system, Sps)
        encoder = taught(SHORT_UPRIGHT, self.public) if upright else glyph_encoder()
        return Prepared(
            image_shape=private.image_shape,
            num_classes=private.num_classes,
            encoder=encoder.folded(),
            public=_components(self.public),
            count=count,
            proportional=proportional,
        )

    def examined(self, found: Set, steps: int) -> dict[str, float]:
        """What classifiers of a set are worth."""
        images, labels = found
        config = with_steps(CNN, len(images), steps)
        examination = Examination(
            test=sets(PRIVATE, self.data)[1],
            body=glyph_encoder,
            cnn=config,
            fine_tuning=config,
        )
        several = len(np.unique(labels)) > 1
        kinds = CLASSIFIERS if several else ("cnn",)
        measured = examination.accuracies(images, labels, kinds)
        return {kind: each.overall for kind, each in measured.items()}


@lru_cache(maxsize=1)
def _components(folder: Path) -> Tensor:
    """Public images for principal components; read once."""
    generator = torch.Generator().manual_seed(0)
    return public_rows(PUBLIC, folder).sample(COMPONENT_IMAGES, generator).inputs


@contextmanager
def hedged(private: Sequence[ImageSet], epsilon: float) -> Iterator[list[Hedge]]:
    """Every party behind its own hedge, with its own ledger."""
    with ExitStack() as stack:
        yield [stack.enter_context(Terms(epsilon=epsilon).hedge(each)) for each in private]


def agreed(row: Row, private: Sequence[ImageSet]) -> Sps | SpsG:
    """A release's settings, with sizes for the noise of all parties' sums together."""
    system, size = row.scale.system(row.method), float(sum(map(len, private)))
    terms, classes = Terms(epsilon=row.epsilon), private[0].num_classes
    noise = relative_noise(terms.budget, terms.relation, size, classes)
    situation = Situation(
        relative_noise=math.sqrt(len(private)) * noise,
        size=size,
        num_classes=classes,
        image_shape=private[0].image_shape,
    )
    found = system.chosen(situation).settings
    assert isinstance(found, Sps | SpsG)
    return found


def centralised(row: Row, study: Study) -> tuple[Set, list[Certificate]]:
    """Noised sums of all parties, added up; images once."""
    private = study.parties(row)
    system = agreed(row, private)
    count = row.scale.count(system)
    material = study.prepared(system, private[0], count, proportional=False)
    with hedged(private, row.epsilon) as hedges:
        norms = [
            stage_release(system, material, stage).clip_norm
            for stage in range(stages_of(system) or 1)
        ]

        def sum_of(embedding: Embedding, stage: int) -> NoisySum:
            return added(
                [
                    released(
                        each, embedding, planned_sums(each, norms)[stage], NoMemory(), f"{stage}"
                    )
                    for each in hedges
                ]
            )

        made = matched(system, material, sum_of, Releases(), Steps())
        certificates = [certify(each.reservation) for each in hedges]
        return made.take(count), certificates


def one_by_one(
    row: Row, study: Study, private: Sequence[ImageSet]
) -> tuple[Set, list[Certificate]]:
    """Each of these makes images of its own noised sums, by its own class sizes."""
    system = row.scale.system(row.method)
    count = row.scale.count(system) // len(private)
    proportional = row.way != POOLED
    found: list[Set] = []
    certificates = []
    with hedged(private, row.epsilon) as hedges:
        for own, hedge in zip(private, hedges, strict=True):
            material = study.prepared(system, own, count, proportional=proportional)
            made = run(system, hedge, material, Releases(), Steps())
            found.append(made.take(count))
            certificates.append(made.certificate)
    images, labels = zip(*found, strict=True)
    return (np.concatenate(images), np.concatenate(labels)), certificates


def pooled(private: Sequence[ImageSet]) -> ImageSet:
    """All rows in one place."""
    images = np.concatenate([np.asarray(each.images[:]) for each in private])
    labels = np.concatenate([np.asarray(each.labels) for each in private])
    return ImageSet(images, labels, private[0].class_names)


def released_row(row: Row, study: Study) -> Kept:
    """A row of a release."""
    if row.way == CENTRALISED:
        found, certificates = centralised(row, study)
    else:
        private = study.parties(row)
        who = {ALONE: private[:1], DECENTRALISED: private, POOLED: [pooled(private)]}[row.way]
        found, certificates = one_by_one(row, study, who)
    return _told(certificates) | {
        "accuracies": study.examined(found, row.scale.steps),
        "images": len(found[0]),
    }


def distilled_row(row: Row, study: Study) -> Kept:
    """A row of a baseline; the server's network is its own classifier."""
    private, settings = study.parties(row), row.scale.baseline(row.method)
    with hedged(private, row.epsilon) as hedges:
        found = distilled(hedges, settings, private[0].image_shape, private[0].num_classes)
    accuracies = {"server": _server(found, study)}
    if len(found.images):
        accuracies |= study.examined((found.images, found.labels), row.scale.steps)
    return _told(found.certificates) | {"accuracies": accuracies, "images": len(found.images)}


def _server(found: Distilled, study: Study) -> float:
    test = sets(PRIVATE, study.data)[1]
    inputs = torch.from_numpy(np.asarray(test.images[:]))
    predicted = predictions(lambda batch: found.network(to_float(batch)), inputs)
    return float((predicted == torch.from_numpy(np.asarray(test.labels))).double().mean())


def _told(certificates: Sequence[Certificate]) -> Kept:
    parties = {f"party {number}": each for number, each in enumerate(certificates, 1)}
    together = FederatedCertificate(parties=parties)
    return {"guarantees": together.guarantees, "delta": DELTA}


def main() -> None:
    """Do what is missing."""
    parser = arguments(__doc__)
    parser.add_argument("--tiny", action="store_true", help="A try that keeps nothing.")
    options = parser.parse_args()
    study = Study(options.data, options.public)

    def do(row: Row) -> Kept:
        start = time.perf_counter()
        found = (distilled_row if row.method in BASELINES else released_row)(row, study)
        seconds = round(time.perf_counter() - start, 1)
        return found | {"seconds": seconds, "seed": 0, "code": machine.COMMIT}

    if not options.tiny:
        do_missing(OUT, all_rows(Scale()), do, lambda _: {"parties": NUM_PARTIES}, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        nowhere = Path(folder) / OUT.name
        do_missing(nowhere, all_rows(TINY), do, lambda _: {"parties": NUM_PARTIES}, options)


if __name__ == "__main__":
    main()
