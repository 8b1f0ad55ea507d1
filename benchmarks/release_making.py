"""Synthetic sets of the release study, from a hedge that is opened for each of them."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.data import ImageSet
from privet.hedge import Hedge, NoisySum, Randomness
from privet.measure import predictions
from privet.privacy import Budget, Ledger, Relation
from privet.recipes.map_moments import SpsG
from privet.recipes.releases import NoMemory, Synthetic, Tensors, affordable_sums
from privet.recipes.sps_settings import Sps
from privet.recipes.synthesis_methods import Prepared, System, run
from privet.release import Embedding, MomentDiscriminant, gaussian_targets
from privet.release.embedding import COUNTS

DELTA = 1e-5
NO_NOISE = 0.0  # stands for ε = ∞
LEAST_NOISE = 10.0  # ε for which bounds without noise choose what depends on it


class Fainter(Randomness):
    """Less noise than was paid for, or none, for bounds and screens: benchmark data is public."""

    def __init__(self, share: float = 0.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._share = share

    def noise(self, stream: int, step: int, draw: int, size: int) -> Tensor:
        """A share of it."""
        return self._share * super().noise(stream, step, draw, size)


class Releases(NoMemory):
    """Keeps what left the hedge for other uses of it, and what stages make for stages after them.

    Args:
        even: give every class the same share of the released counts, as papers assume (N/C).
        times: what is released counts so often, as if every image were there so often.
    """

    def __init__(self, *, even: bool = False, times: float = 1.0) -> None:
        self.even, self.times, self.kept = even, times, list[tuple[Embedding, Tensors]]()
        self._made: dict[str, Tensors] = {}

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """As it was made before."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """As released, or with even counts."""
        found = super().paid(name, embedding, make)
        blocks = {name: self.times * block for name, block in found.items()}
        if self.even:
            blocks = evenly(blocks)
        self.kept.append((embedding, blocks))
        return blocks


def evenly(blocks: Tensors) -> Tensors:
    """The released total, divided evenly; clipping, which lessens it, is not what is compared."""
    counts = blocks[f"{COUNTS}.mean"]
    return {**blocks, f"{COUNTS}.mean": counts.mean(0, keepdim=True).expand_as(counts).clone()}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is spent.

    Args:
        epsilon: the budget; 0 releases without noise.
        relation: which data sets are neighbours.
    """

    epsilon: float = 1.0
    relation: Relation = Relation.ADD_REMOVE

    @property
    def silent(self) -> bool:
        """Whether there is no noise."""
        return self.epsilon == NO_NOISE

    @property
    def budget(self) -> Budget:
        """Of the ledger."""
        return Budget(epsilon=self.epsilon or LEAST_NOISE, delta=DELTA)

    @contextmanager
    def hedge(
        self,
        private: ImageSet | Mapping[str, NDArray[Any]],
        *,
        declared: int | None = None,
        randomness: Randomness | None = None,
    ) -> Iterator[Hedge]:
        """Over rows whose number is declared."""
        columns = private.columns() if isinstance(private, ImageSet) else private
        epsilon = self.budget.epsilon
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            ledger = Ledger.create(path, epsilon=epsilon, delta=DELTA, relation=self.relation)
            yield Hedge(
                columns,
                ledger.reserve(epsilon=epsilon),
                declared_size=declared or len(next(iter(columns.values()))),
                randomness=Fainter() if self.silent else randomness or Randomness(),
            )
            ledger.close()


class Steps:
    """Counts steps of a synthesis as it is told of them."""

    def __init__(self) -> None:
        self.done, self.total = 0, 0

    def __call__(self, done: int, total: int) -> None:
        """One more."""
        self.done, self.total = self.done + 1, total


@dataclass(frozen=True, eq=False, kw_only=True)
class Made:
    """A system's result.

    Args:
        synthetic: as many images as one likes.
        releases: what left the hedge.
        terms: what was spent.
        seconds: until images can be had.
        steps: that were taken so far.
    """

    synthetic: Synthetic
    releases: Releases
    terms: Terms
    seconds: float
    steps: Steps

    @property
    def guarantee(self) -> str:
        """In words."""
        return "no noise" if self.terms.silent else str(self.synthetic.certificate.guarantee)

    def iterations(self, system: System, images: int) -> int:
        """Of a generator; or of every image, in all stages together, once images were made."""
        if not isinstance(system, Sps):
            return self.steps.total
        return self.steps.done // math.ceil(images / self.synthetic.batch_size)


def made(
    system: System,
    private: ImageSet,
    prepared: Prepared,
    terms: Terms,
    releases: Releases | None = None,
    randomness: Randomness | None = None,
) -> Made:
    """Release once, and be ready to make images."""
    start, releases, steps = time.perf_counter(), releases or Releases(), Steps()
    declared = round(releases.times * len(private))
    with terms.hedge(private, declared=declared, randomness=randomness) as hedge:
        synthetic = run(system, hedge, prepared, releases, steps)
    return Made(
        synthetic=synthetic,
        releases=releases,
        terms=terms,
        seconds=time.perf_counter() - start,
        steps=steps,
    )


def discriminants(found: Made, system: SpsG) -> dict[str, MomentDiscriminant]:
    """Classifiers straight from what SPS-G released."""
    [(embedding, blocks)] = found.releases.kept
    terms = found.terms
    [mechanism] = affordable_sums(terms.budget, terms.relation, [system.clip_norm])
    noisy = NoisySum(blocks, mechanism.noise_scale)
    targets = gaussian_targets(embedding, noisy, system.judging)
    return {
        "discriminant": MomentDiscriminant.quadratic(embedding, targets),
        "linear-discriminant": MomentDiscriminant.linear(embedding, targets),
    }


def judged(judge: MomentDiscriminant, images: ImageSet) -> Tensor:
    """The likeliest class of each image."""
    return predictions(judge.scores, torch.from_numpy(np.asarray(images.images[:])))
