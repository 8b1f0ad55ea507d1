"""DP-MERF for tables: one noised mean embedding of each class, and a generator of rows to match it.

References:
    Harder et al., DP-MERF, 2021: random Fourier features of numbers beside one-hot categories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from privet.data.schema import Binary, Categorical, Numeric, Schema
from privet.data.table_decoding import decoded
from privet.errors import ConfigError
from privet.hedge import Hedge, NoisySum, require_columns
from privet.keys import keyed, seeded
from privet.learn.equation import INPUTS, TARGETS
from privet.models import TableGenerator
from privet.privacy import Certificate, certify
from privet.recipes.releases import (
    Kept,
    Memory,
    NoMemory,
    OnStep,
    Release,
    Tensors,
    planned,
    released,
    told,
)
from privet.recipes.turns import even, in_turn
from privet.release import (
    Embedding,
    Part,
    class_shares,
    class_totals,
    each_class,
    released_moments,
)
from privet.release.mixed import MixedFeatures
from privet.synthesis import GeneratorTraining, train_generator
from privet.synthesis.generating import made_of

if TYPE_CHECKING:
    import pyarrow as pa

_RELEASE, _GENERATOR = "release", "generator"


@dataclass(frozen=True, kw_only=True)
class TableMerf:
    """The settings of DP-MERF for tables, decided before a private row is read.

    Args:
        size: D, the number of Fourier features of numbers.
        length_scale: length scale of the Gaussian kernel, in numbers from -1 to 1; None takes half
            of √numbers.
        count_share: the weight of a class count, as a share of the clip norm.
        iterations: training steps of the generator.
        per_class: rows of each class in a training step.
        learning_rate: learning rate of Adam.
        latent: length of the generator's latent vectors.
        batch_size: rows that are sampled at once.
        seed: the seed of features, generator and rows.
    """

    size: int = 1000
    length_scale: float | None = None
    count_share: float = 0.1
    iterations: int = 1000
    per_class: int = 100
    learning_rate: float = 3e-3
    latent: int = 16
    batch_size: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.count_share > 0:
            raise ConfigError(f"count_share is {self.count_share:g}: give more than 0.")
        for name in ("latent", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give 1 or more.")
        _ = self.training

    @property
    def training(self) -> GeneratorTraining:
        """How the generator is trained."""
        return GeneratorTraining(
            iterations=self.iterations,
            per_class=self.per_class,
            learning_rate=self.learning_rate,
            seed=self.seed + 1,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """Rows that anyone may have, as many as one likes, and what they cost.

    Args:
        batch: rows by the number of a batch, the same whenever they are asked for.
        batch_size: rows in a batch.
        shares: shares of the classes, as released.
        certificate: of the run.
    """

    batch: Callable[[int], pa.Table]
    batch_size: int
    shares: Tensor
    certificate: Certificate

    def batches(self, count: int) -> Iterator[pa.Table]:
        """Yield the first `count` rows, in batches."""
        for number in range(math.ceil(count / self.batch_size)):
            yield self.batch(number).slice(0, count - number * self.batch_size)

    def take(self, count: int) -> pa.Table:
        """Return the first `count` rows, at once."""
        import pyarrow as pa

        return pa.concat_tables(list(self.batches(count)))


def table_merf(
    hedge: Hedge,
    schema: Schema,
    *,
    settings: TableMerf | None = None,
    proportional: bool = True,
    treated_as_public: tuple[str, ...] = ("bounds, categories and classes of the table's columns",),
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> SyntheticTable:
    """Spend the whole reservation on one release, and be ready to sample from a generator.

    Guarantees:
        Private rows are seen by one clipped and noised sum alone. Class sizes come from its counts.

    Args:
        hedge: the columns of a `TableSet`, with an ε reserved.
        schema: declared, or from public rows.
        settings: the method's settings; None takes the defaults.
        proportional: make classes as large as released counts say, else equally large.
        treated_as_public: what the certificate lists as public.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while the generator is trained.
    """
    s, memory = settings or TableMerf(), memory or NoMemory()
    require_columns(hedge, INPUTS, TARGETS)
    release = table_release(schema, s)
    [mechanism] = planned(hedge, [release])
    noisy = released(hedge, release.embedding, mechanism, memory, _RELEASE)
    generator = _untrained(schema, s)
    generator.load_state_dict(
        memory.once(
            _GENERATOR, lambda: _trained(generator, release.embedding, noisy, s, memory, on_step)
        )
    )
    shares = class_shares(release.embedding, noisy)
    turns = shares if proportional else even(len(schema.classes))
    return SyntheticTable(
        batch=lambda number: _batch(generator, schema, turns, number, s),
        batch_size=s.batch_size,
        shares=shares,
        certificate=certify(hedge.reservation, public=treated_as_public),
    )


def table_release(schema: Schema, s: TableMerf) -> Release:
    """Make the release: features of numbers and categories in blocks of their class, and counts.

    The clip norm is what such a vector has at most: nothing is clipped but what rounding adds.
    """
    features, classes = mixed_features(schema, s), len(schema.classes)
    groups = each_class(classes)
    embedding = Embedding(
        features=features.by_kind,
        parts=tuple(
            Part(name=name, source=name, size=size, groups=groups)
            for name, size in features.sizes.items()
        ),
        num_classes=classes,
        count_weight=s.count_share,
    )
    return Release(embedding, math.sqrt(1 + s.count_share**2) * (1 + 1e-4))


def mixed_features(schema: Schema, s: TableMerf) -> MixedFeatures:
    """Make the features of a schema, by where numbers and categories lie in an encoded row."""
    numeric: list[int] = []
    binary: list[int] = []
    slots: list[int] = []
    place = 0
    for column in schema.columns:
        kinds = {Numeric: numeric, Binary: binary, Categorical: slots}
        kinds.get(type(column), []).extend(range(place, place + column.width))
        place += column.width
    return MixedFeatures.random(
        numeric,
        binary,
        slots,
        sum(isinstance(each, Categorical) for each in schema.columns),
        size=s.size,
        length_scale=s.length_scale or math.sqrt(max(1, len(numeric))) / 2,
        generator=torch.Generator().manual_seed(s.seed),
    )


def _untrained(schema: Schema, s: TableMerf) -> TableGenerator:
    widths = tuple(each.width for each in schema.columns if each.width)
    with seeded(torch.Generator().manual_seed(s.seed + 1)):
        return TableGenerator(s.latent, len(schema.classes), widths)


def _trained(
    generator: TableGenerator,
    embedding: Embedding,
    noisy: NoisySum,
    s: TableMerf,
    memory: Memory,
    on_step: OnStep | None,
) -> Tensors:
    """Train the generator by the distance between joint mean embeddings, MMD² up to a constant."""
    totals, targets = class_totals(embedding, noisy), released_moments(embedding, noisy)
    shares = (totals / totals.sum())[:, None]

    def distance(rows: Tensor, labels: Tensor) -> Tensor:
        found, _ = embedding.moments(rows, labels)
        gaps = [shares * (each.mean - found[name].mean) for name, each in targets.items()]
        return torch.stack([gap.square().sum() for gap in gaps]).sum()

    train_generator(
        generator,
        distance,
        s.training,
        latent=s.latent,
        num_classes=embedding.num_classes,
        on_step=told(on_step, s.iterations),
        checkpoint=Kept(memory, _GENERATOR),
    )
    return dict(generator.state_dict())


def _batch(
    generator: TableGenerator, schema: Schema, turns: Tensor, number: int, s: TableMerf
) -> pa.Table:
    labels = in_turn(turns, number * s.batch_size, s.batch_size).labels
    seed = keyed(s.seed, number).initial_seed()
    rows = torch.cat(list(made_of(generator, labels, latent=s.latent, seed=seed)))
    return decoded(schema, rows.numpy(), labels.numpy(), np.random.default_rng(seed))
