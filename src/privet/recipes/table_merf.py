"""DP-MERF for tables: one noised mean embedding of each class, and a generator of rows to match it.

References:
    Harder et al., DP-MERF, 2021: random Fourier features of numbers beside one-hot categories.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from privet.data.schema import Binary, Categorical, Numeric, Schema
from privet.data.table_decoding import decoded
from privet.hedge import Hedge, Units, require_columns
from privet.learn.equation import INPUTS, TARGETS
from privet.models import TableGenerator
from privet.privacy import Certificate, certify
from privet.public.warm_up import seeded
from privet.recipes.releases import planned_sums
from privet.release import ClassBlocks, class_means
from privet.release.mixed import MixedFeatures

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class TableMerf:
    """What is decided before a private row is read.

    Args:
        size: D, of the Fourier features of numbers.
        length_scale: of the Gaussian kernel, in numbers from -1 to 1; none takes half of √numbers.
        count_share: of the clip norm that a class count weighs.
        iterations: of the generator's training.
        per_class: rows of each class in a step of it.
        learning_rate: of Adam.
        latent: length of the generator's noise.
        seed: of features, generator and rows.
    """

    size: int = 1000
    length_scale: float | None = None
    count_share: float = 0.1
    iterations: int = 1000
    per_class: int = 100
    learning_rate: float = 3e-3
    latent: int = 16
    seed: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """Rows that anyone may have, and what they cost."""

    table: pa.Table
    certificate: Certificate


def table_merf(
    hedge: Hedge, schema: Schema, *, count: int, settings: TableMerf | None = None
) -> SyntheticTable:
    """Spend the whole reservation on one release, and sample a table from a generator.

    Guarantees:
        Private rows are seen by one clipped and noised sum alone. Class sizes come from its counts.

    Args:
        hedge: the columns of a `TableSet`, with an ε reserved.
        schema: declared, or from public rows.
        count: how many rows to make.
        settings: of the method.
    """
    s = settings or TableMerf()
    require_columns(hedge, INPUTS, TARGETS)
    features = mixed_features(schema, s)

    def of_units(units: Units) -> Tensor:
        return features(units[INPUTS])

    summand = ClassBlocks(
        features=of_units,
        size=features.size,
        num_classes=len(schema.classes),
        count_scale=s.count_share,
    )
    # What a vector has at most: nothing is clipped but what rounding adds.
    [mechanism] = planned_sums(hedge, [math.sqrt(1 + s.count_share**2) * (1 + 1e-4)])
    means, counts = class_means(hedge.release(summand, mechanism), s.count_share)
    shares = counts / counts.sum()
    generator = _trained(schema, features, means, shares, s)
    return SyntheticTable(
        table=_sampled(generator, schema, shares, count, s.seed),
        certificate=certify(
            hedge.reservation, public=("bounds, categories and classes of the table's columns",)
        ),
    )


def mixed_features(schema: Schema, s: TableMerf) -> MixedFeatures:
    """Where the numbers and the categories of a schema lie in an encoded row."""
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


def _trained(
    schema: Schema, features: MixedFeatures, means: Tensor, shares: Tensor, s: TableMerf
) -> TableGenerator:
    """By the distance between joint mean embeddings, MMD² up to a constant."""
    draw, num_classes = torch.Generator().manual_seed(s.seed + 1), len(schema.classes)
    widths = tuple(each.width for each in schema.columns if each.width)
    with seeded(draw):
        generator = TableGenerator(s.latent, num_classes, widths)
    optimizer = torch.optim.Adam(generator.parameters(), lr=s.learning_rate)
    labels = torch.arange(num_classes).repeat_interleave(s.per_class)
    weight = shares.detach().cpu()[:, None]
    for _ in range(s.iterations):
        noise = torch.randn(len(labels), s.latent, generator=draw)
        made = features(generator(noise, labels)).unflatten(0, (num_classes, -1)).mean(1)  # type: ignore[no-untyped-call]
        loss = (weight * (made - means.cpu())).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return generator.eval()


def _sampled(
    generator: TableGenerator, schema: Schema, shares: Tensor, count: int, seed: int
) -> pa.Table:
    draw = torch.Generator().manual_seed(seed + 2)
    labels = torch.multinomial(shares.double().cpu(), count, replacement=True, generator=draw)
    noise = torch.randn(count, generator.latent, generator=draw)
    with torch.no_grad():
        rows = generator(noise, labels).numpy()
    return decoded(schema, rows, labels.numpy(), np.random.default_rng(seed))
