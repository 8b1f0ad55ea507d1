"""The boundary. Private rows live behind a `Hedge`; what leaves it is clipped and noised.

Trusted: the functions passed in (they see rows; they must keep none) and this process.
Not trusted: anyone who sees what is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Generic, NoReturn, Protocol, TypeVar, runtime_checkable

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privet.errors import ConfigError, PrivacyError
from privet.hedge.clipping import ClippedSum, clipped_sum
from privet.hedge.mechanism import GaussianSum, Mechanism, PoissonSum
from privet.hedge.randomness import Randomness, SecureRandomness
from privet.hedge.summand import Blocks, Summand
from privet.hedge.team import Alone, Team
from privet.hedge.units import Column, Index, Rows, Units
from privet.privacy import Reservation, Unit

_PIECE = 1 << 17  # coordinates that get their noise at once, in the cache

Value = TypeVar("Value")


@runtime_checkable
class HasColumns(Protocol):
    """An image set, or anything else that can name its columns."""

    def columns(self) -> Mapping[str, Any]:
        """Arrays by name, each with one row per example."""


@dataclass(frozen=True)
class NoisySum:
    """What left the hedge: a clipped sum with its noise. Free to use, print and publish."""

    blocks: Blocks
    noise_scale: float

    def __getitem__(self, block: str) -> Tensor:
        return self.blocks[block]


@dataclass(frozen=True)
class NotPrivate(Generic[Value]):
    """A value computed outside the guarantee. It says so wherever it is shown."""

    name: str
    value: Value

    def __str__(self) -> str:
        return f"NOT PRIVATE ({self.name}): {self.value}"


class Hedge:
    """Private rows and the reservation that pays for using them.

    Guarantees:
        Everything that `release` and `Steps.step` return is (ε, δ)-private at the cost of the
        reservation's plan, composed by its ledger. `map` returns another hedge. No row is read
        unless the reservation is live, and no result leaves before its spend is durable.
    """

    def __init__(
        self,
        rows: HasColumns | Mapping[str, Column],
        reservation: Reservation,
        *,
        users: ArrayLike | None = None,
        declared_size: float | None = None,
        physical_batch: int = 512,
        randomness: Randomness | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Put rows behind the hedge.

        Args:
            rows: named columns, or something that has them, such as an image set.
            reservation: pays for everything that will leave the hedge.
            users: the owner of each row, where the unit of privacy is a user.
            declared_size: the number of units as the owner declares it; kept to two digits.
            physical_batch: units per batch; it changes speed and memory, never a result.
            randomness: a seeded source makes the run reproducible and not private; a ledger that
                asks for secure noise gets it whatever is given.
            device: where per-unit functions run.
        """
        if (users is not None) != (reservation.ledger.unit is Unit.USER):
            raise ConfigError(
                f"The ledger protects each {reservation.ledger.unit.value}: give user ids exactly "
                "when the unit is a user."
            )
        if physical_batch < 1:
            raise ConfigError(f"The physical batch must be at least 1, not {physical_batch}.")
        self.__rows = Rows(rows.columns() if isinstance(rows, HasColumns) else rows, users)
        self.__reservation = reservation
        self.__declared_size = None if declared_size is None else _two_digits(declared_size)
        self.__physical_batch = physical_batch
        self.__randomness = _source(randomness, secure=reservation.ledger.secure_noise)
        self.__device = torch.device(device)
        self.__team: Team = Alone()
        if self.__randomness.seeded:
            reservation.mark_seeded()
        if self.__declared_size is not None:
            reservation.declare_size(self.__declared_size)

    @property
    def reservation(self) -> Reservation:
        """The reservation that pays for everything that leaves the hedge."""
        return self.__reservation

    @property
    def device(self) -> torch.device:
        """The device that per-unit functions run on; tensors that they use belong there too."""
        return self.__device

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns, which are public."""
        return self.__rows.columns

    @property
    def size(self) -> float:
        """The declared number of units, to two digits. The true number is never read."""
        if self.__declared_size is None:
            raise PrivacyError(
                "The number of private units is private: declare it, or release a count."
            )
        return self.__declared_size

    def map(self, function: Callable[[Units], Mapping[str, Tensor]]) -> Hedge:
        """Compute new columns from every row, such as features of a frozen encoder.

        They stay behind the hedge. The function must treat each row by itself; it runs on batches
        of the physical size.
        """
        batches = enumerate(self.__everyone() or [slice(0, 0)])
        return self.__with(self.__rows.mapped(function, self.__read(batches)))

    def shared_with(self, team: Team) -> Hedge:
        """Return a hedge over the same rows whose sums a team adds up; this process leads it."""
        other = self.__with(self.__rows)
        other.__team = team
        return other

    def release(self, summand: Summand, mechanism: GaussianSum) -> NoisySum:
        """Return one clipped and noised sum over all units."""
        require_kind(mechanism, GaussianSum)
        self.__reservation.require(mechanism.event)
        scale = self.__scale(summand, mechanism)
        total = self.__sum(self.__everyone(), summand, mechanism)
        ticket = self.__reservation.spend(mechanism.event)
        number = self.__randomness.next_unused(ticket.event_index, ticket.number)
        noisy = self.__noised(total, summand, scale, ticket.event_index, number)
        return NoisySum(self.__team.hand_out(noisy), scale)

    def steps(
        self, mechanism: PoissonSum, *, first: int = 0, physical_batch: int | None = None
    ) -> Steps:
        """Start a sequence of clipped and noised sums over Poisson samples.

        Args:
            mechanism: sampling, clip and noise of every step.
            first: the number of the first step; a resumed run goes on where it was.
            physical_batch: units per batch, if another number suits the summand better.
        """
        require_kind(mechanism, PoissonSum)
        size = self.__physical_batch if physical_batch is None else physical_batch
        if size < 1:
            raise ConfigError(f"The physical batch must be at least 1, not {size}.")
        if not isinstance(first, Integral) or first < 0:
            raise ConfigError(f"Steps are numbered from 0, not from {first}.")
        stream = self.__reservation.plan.index(mechanism.event)
        if stream is None:
            raise PrivacyError(f"The plan does not contain {mechanism.event}.")

        def step(summand: Summand, number: int) -> tuple[NoisySum, int]:
            number = self.__randomness.next_unused(stream, number)
            return self.__step(summand, mechanism, stream, number, size), number

        def remaining(number: int) -> int:
            again = max(0, self.__reservation.spent(mechanism.event) - number)
            left = self.__reservation.remaining(mechanism.event)
            return left + again if self.__randomness.seeded else left

        return Steps(step, remaining, mechanism, int(first))

    def outside_guarantee(self, name: str, function: Callable[[Units], Value]) -> NotPrivate[Value]:
        """Look at all rows without protection; the ledger notes it before it happens.

        For baselines and diagnostics: the result is marked as not private, and the certificate
        lists it.
        """
        if not name.strip():
            raise ConfigError("The door outside the guarantee is opened by name.")
        self.__reservation.require_live()
        self.__reservation.open_door(name)
        [units] = self.__read([(0, slice(0, self.__rows.num_units))])
        return NotPrivate(name, function(units))

    def __step(
        self, summand: Summand, mechanism: PoissonSum, stream: int, number: int, size: int
    ) -> NoisySum:
        # A seeded run (not private) draws the same noise again: the same result, paid once.
        again = self.__randomness.seeded and number < self.__reservation.spent(mechanism.event)
        if not again:
            self.__reservation.require(mechanism.event)
        scale = self.__scale(summand, mechanism)
        rate, everyone = mechanism.sampling_rate, self.__rows.num_units
        sample = self.__randomness.sample(stream, number, everyone, rate)
        batches: list[Index] = [
            sample[start : start + size] for start in range(0, len(sample), size)
        ]
        total = self.__sum(batches, summand, mechanism)
        if not again:
            self.__reservation.spend(mechanism.event)
        noisy = self.__noised(total, summand, scale, stream, number)
        return NoisySum(self.__team.hand_out(noisy), scale)

    def __sum(self, batches: list[Index], summand: Summand, mechanism: Mechanism) -> ClippedSum:
        """Add up clipped vectors, with the team, without noise."""
        units = self.__read(self.__team.share(batches))
        self.__team.call(batches, self.__rows.arrangement)
        return self.__team.total(clipped_sum(units, summand, mechanism.clip_norm))

    def __scale(self, summand: Summand, mechanism: Mechanism) -> float:
        """The noise scale of a sum, known before anything is spent."""
        numbers = sum(zero.numel() for zero in summand.zeros().values())
        return self.__randomness.scale(mechanism, numbers, self.__reservation)

    def __noised(
        self, total: ClippedSum, summand: Summand, scale: float, stream: int, number: int
    ) -> Blocks:
        """Add noise to a sum whose spend is durable."""
        self.__randomness.claim(stream, number)
        dtypes = {name: zero.dtype for name, zero in summand.zeros().items()}

        exact = {name: block.reshape(-1) for name, block in total.items()}
        noisy = {name: torch.empty_like(flat, dtype=dtypes[name]) for name, flat in exact.items()}
        pieces = (
            (name, slice(start, min(start + _PIECE, len(flat))))
            for name, flat in exact.items()
            for start in range(0, len(flat), _PIECE)
        )
        for draw, group in enumerate(_grouped(pieces)):
            parts = [exact[name][part] for name, part in group]
            ready = self.__randomness.noised(parts, scale, stream, number, draw)
            for (name, part), values in zip(group, ready, strict=True):
                noisy[name][part] = values
        return {name: noisy[name].view(block.shape) for name, block in total.items()}

    def __read(self, batches: Iterable[tuple[int, Index]]) -> Iterator[Units]:
        """Read private rows: nothing else does, but for the helpers of a team."""
        self.__randomness.require_own_process()
        self.__reservation.require_live()
        return (self.__rows.batch(batch, self.__device, number) for number, batch in batches)

    def __everyone(self) -> list[Index]:
        return self.__rows.in_batches(self.__physical_batch)

    def __with(self, rows: Rows) -> Hedge:
        other = object.__new__(Hedge)
        other.__dict__.update(self.__dict__)
        other.__rows = rows
        return other

    def __repr__(self) -> str:
        return f"Hedge(reservation={self.__reservation.id!r})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A hedge cannot be copied, pickled or sent: private rows stay here.")


class Steps:
    """A run's iterator over its planned Poisson steps."""

    def __init__(
        self,
        step: Callable[[Summand, int], tuple[NoisySum, int]],
        remaining: Callable[[int], int],
        mechanism: PoissonSum,
        first: int,
    ) -> None:
        self._step = step
        self._remaining = remaining
        self.mechanism = mechanism
        self.number = first

    @property
    def remaining(self) -> int:
        """How many steps the plan still pays for. A step that is run again is paid again."""
        return self._remaining(self.number)

    def step(self, summand: Summand) -> NoisySum:
        """Return the next clipped and noised sum.

        A step that failed may be tried again: free of charge before its spend, else as a new one.
        """
        result, number = self._step(summand, self.number)
        self.number = number + 1
        return result


def _source(given: Randomness | None, *, secure: bool) -> Randomness:
    if not secure:
        return given or Randomness()
    if given is not None and given.seeded:
        raise ConfigError("The ledger asks for secure noise, which has no seed: leave it out.")
    return given if isinstance(given, SecureRandomness) else SecureRandomness()


def _grouped(pieces: Iterable[tuple[str, slice]]) -> Iterator[list[tuple[str, slice]]]:
    """Put small pieces together, since every draw of noise has a fixed cost."""
    group, size = [], 0
    for name, part in pieces:
        group.append((name, part))
        size += part.stop - part.start
        if size >= _PIECE:
            yield group
            group, size = [], 0
    if group:
        yield group


def require_kind(mechanism: Mechanism, kind: type[Mechanism]) -> None:
    """Refuse a sum over all units at the price of one over a sample, and the other way round."""
    if not isinstance(mechanism, kind):
        raise PrivacyError(
            f"A {type(mechanism).__name__} was given where a {kind.__name__} is due: sums over all "
            "units are released, sums over samples are steps."
        )


def require_columns(hedge: Hedge, *names: str) -> None:
    """Refuse private rows that lack one of the named columns, before a plan is fixed."""
    for name in names:
        if name not in hedge.columns:
            given = ", ".join(sorted(hedge.columns))
            raise ConfigError(f"The private rows have no {name}, only {given}: give them.")


def _two_digits(size: float) -> float:
    if not 1 <= size < math.inf:
        raise ConfigError(f"The declared number of units must be at least 1, not {size:g}.")
    return float(f"{size:.1e}")
