"""A hedge that an auditor watches: every sum that leaves it is compared with what canaries add.

The auditor is the adversary that the guarantee is about. It knows every row but for a coin each,
and every function of a row; it sees what leaves the hedge, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.audit.gauge import Gauge
from privet.audit.one_run import Coins, Scores
from privet.hedge import (
    GaussianSum,
    Hedge,
    Mechanism,
    NoisySum,
    PoissonSum,
    Randomness,
    Steps,
    Summand,
    Team,
    Units,
    clipped_sum,
)
from privet.privacy import Reservation

_NUMBER = 1 << 33  # of an auditor's batches, whose views must not be those of private ones
_PRIOR = 4.0  # one over the variance of a fair coin

Columns = Mapping[str, Tensor]


@dataclass(frozen=True)
class Roster:
    """Rows that are surely in the private data set, and canaries that may be.

    Args:
        base: rows that are surely in.
        canaries: rows that are in or out by a coin each.
        twins: rows in the place of canaries that are out, where neighbours replace a row; else
            `None`.
    """

    base: Columns
    canaries: Columns
    twins: Columns | None = None

    @property
    def num_canaries(self) -> int:
        """The number of canaries."""
        return _count(self.canaries)

    def rows(self, coins: Coins) -> dict[str, Tensor]:
        """The private data set that the coins make."""
        chosen = torch.from_numpy(coins)
        found = {name: [each, self.canaries[name][chosen]] for name, each in self.base.items()}
        if self.twins is not None:
            for name, each in self.twins.items():
                found[name].append(each[~chosen])
        return {name: torch.cat(parts) for name, parts in found.items()}

    def mapped(self, function: Callable[[Units], Mapping[str, Tensor]]) -> Roster:
        """Map all rows as `Hedge.map` does."""

        def through(columns: Columns | None) -> Columns | None:
            if columns is None:
                return None
            with torch.no_grad():
                return function(_units(columns))

        base, canaries = through(self.base), through(self.canaries)
        assert base is not None
        assert canaries is not None
        return Roster(base, canaries, through(self.twins))


@dataclass
class Evidence:
    """What all sums say of the coins: a Gaussian regression, added up sum by sum.

    A sum is Σ coin · vector + noise, so with a fair coin's variance of 1/4 the posterior means of
    the coins are (V Vᵀ / σ² + 4)⁻¹ V y / σ² for what is left of the sum, y.
    """

    precision: Tensor
    pull: Tensor
    single: list[Scores] = field(default_factory=list)
    gauge: Gauge = field(default_factory=Gauge)

    def add(self, vectors: Tensor, left: Tensor, noise_scale: float, *, alone: bool) -> None:
        """Add one more sum; `alone` also keeps what it says by itself, for sums that are few."""
        precision, pull = vectors @ vectors.T / noise_scale**2, vectors @ left / noise_scale**2
        if alone:
            self.single.append(_solved(precision, pull))
        self.precision += precision
        self.pull += pull

    @property
    def readings(self) -> list[Scores]:
        """Scores of all canaries, the higher the likelier one is in.

        They are by all sums together, then by single ones: if a sum lacks the noise it should have,
        all together would not trust it enough.
        """
        together = _solved(self.precision, self.pull)
        return [together, *(self.single if len(self.single) > 1 else ())]


class WatchedHedge:
    """A stand-in for a hedge that notes what every sum says of the canaries.

    Args:
        hedge: the hedge around the rows of a roster.
        roster: the rows that the auditor knows.
        coins: which canaries are in; used for the gauge alone.
        evidence: where the notes go.
    """

    def __init__(self, hedge: Hedge, roster: Roster, coins: Coins, evidence: Evidence) -> None:
        self._hedge, self._roster, self._coins = hedge, roster, torch.from_numpy(coins).double()
        self.evidence = evidence

    @property
    def reservation(self) -> Reservation:
        """The reservation of the hedge inside."""
        return self._hedge.reservation

    @property
    def device(self) -> torch.device:
        """The device of the hedge inside."""
        return self._hedge.device

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns of the hedge inside."""
        return self._hedge.columns

    @property
    def size(self) -> float:
        """The declared number of units."""
        return self._hedge.size

    def map(self, function: Callable[[Units], Mapping[str, Tensor]]) -> Hedge:
        """Map all rows as `Hedge.map` does, and the canaries with them."""
        return self._around(self._hedge.map(function), self._roster.mapped(function))

    def shared_with(self, team: Team) -> Hedge:
        """Return a watched hedge whose sums a team adds up, as `Hedge.shared_with` does."""
        return self._around(self._hedge.shared_with(team), self._roster)

    def release(self, summand: Summand, mechanism: GaussianSum) -> NoisySum:
        """Release a sum as `Hedge.release` does, and note what it says of the canaries."""
        noisy = self._hedge.release(summand, mechanism)
        self._see(noisy, summand, mechanism, None)
        return noisy

    def steps(
        self, mechanism: PoissonSum, *, first: int = 0, physical_batch: int | None = None
    ) -> Steps:
        """Start steps as `Hedge.steps` does, and note what each says of the canaries."""
        inner = self._hedge.steps(mechanism, first=first, physical_batch=physical_batch)

        def step(summand: Summand, number: int) -> tuple[NoisySum, int]:
            noisy = inner.step(summand)
            self._see(noisy, summand, mechanism, mechanism.sampling_rate)
            return noisy, inner.number - 1

        return Steps(step, lambda _: inner.remaining, mechanism, first)

    def _see(
        self, noisy: NoisySum, summand: Summand, mechanism: Mechanism, rate: float | None
    ) -> None:
        clip, share = mechanism.clip_norm, 1.0 if rate is None else rate
        vectors = per_row(self._roster.canaries, summand, clip)
        base = [_units(self._roster.base)] if _count(self._roster.base) else []
        known = _flat(clipped_sum(base, summand, clip))
        if self._roster.twins is not None:
            twins = per_row(self._roster.twins, summand, clip)
            known, vectors = known + twins.sum(0), vectors - twins
        left = _flat(noisy.blocks) - share * (known + vectors.sum(0) / 2)
        self.evidence.add(share * vectors, left, mechanism.noise_scale, alone=rate is None)
        noise = left + share * ((0.5 - self._coins) @ vectors)
        sizes = {name: noisy[name].numel() for name in sorted(noisy.blocks)}
        parts = torch.split(noise, list(sizes.values()))
        self.evidence.gauge.add(dict(zip(sizes, parts, strict=True)), mechanism, rate is None)

    def _around(self, hedge: Hedge, roster: Roster) -> Hedge:
        return cast(Hedge, WatchedHedge(hedge, roster, self._coins.bool().numpy(), self.evidence))


def watched(
    roster: Roster,
    coins: Coins,
    reservation: Reservation,
    randomness: Randomness | None = None,
    declared_size: float | None = None,
) -> tuple[Hedge, Evidence]:
    """A watched hedge around the rows that coins choose, and the evidence that it will gather."""
    inside = Hedge(
        roster.rows(coins), reservation, randomness=randomness, declared_size=declared_size
    )
    m = roster.num_canaries
    evidence = Evidence(torch.zeros(m, m, dtype=torch.float64), torch.zeros(m, dtype=torch.float64))
    return cast(Hedge, WatchedHedge(inside, roster, coins, evidence)), evidence


def per_row(columns: Columns, summand: Summand, clip_norm: float) -> Tensor:
    """The clipped vector that each row adds to a sum, one row of the result each."""
    count = _count(columns)
    single = ({name: each[i : i + 1] for name, each in columns.items()} for i in range(count))
    return torch.stack([_flat(clipped_sum([_units(each)], summand, clip_norm)) for each in single])


def _units(columns: Columns) -> Units:
    return Units(columns, torch.arange(_count(columns) + 1), _NUMBER)


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _flat(blocks: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([blocks[name].detach().double().flatten().cpu() for name in sorted(blocks)])


def _solved(precision: Tensor, pull: Tensor) -> NDArray[np.float64]:
    prior = _PRIOR * torch.eye(len(pull), dtype=torch.float64)
    found: NDArray[np.float64] = torch.linalg.solve(precision + prior, pull).numpy()
    return np.nan_to_num(found, nan=np.inf)
