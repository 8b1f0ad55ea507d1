"""A helper process of a team: it holds private rows and gives the leader shares of sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge.clipping import clipped_sum
from privet.hedge.hedge import HasColumns, NoisySum, Steps, require_kind
from privet.hedge.mechanism import GaussianSum, Mechanism, PoissonSum
from privet.hedge.summand import Summand
from privet.hedge.team import Processes, TeamError
from privet.hedge.units import Column, Index, Rows, Units


class Dismissed(TeamError):  # noqa: N818 - it is a farewell, not a malfunction
    """The leader needs no further sums, so this helper may end."""


class Helper:
    """The other side of a leading `Hedge`, with the same rows and without a reservation.

    It is made only once the leader, whose reservation is live, has said so.

    Guarantees:
        A share of a sum goes to the leader alone, and only when it calls for that sum. What is
        returned has left the hedge there: it is paid for, and has its noise.
    """

    def __init__(
        self,
        rows: HasColumns | Mapping[str, Column],
        team: Processes,
        *,
        users: ArrayLike | None = None,
        physical_batch: int = 512,
        device: torch.device | str = "cpu",
    ) -> None:
        """Take the same arguments as `Hedge`, with a team in the place of the reservation."""
        self.__rows = Rows(rows.columns() if isinstance(rows, HasColumns) else rows, users)
        self.__team, self.__device = team, torch.device(device)
        self.__physical_batch = physical_batch

    def map(self, function: Callable[[Units], Mapping[str, Tensor]]) -> Helper:
        """Compute new columns from every row, as `Hedge.map` does; they stay here."""
        batches = enumerate(self.__rows.in_batches(self.__physical_batch) or [slice(0, 0)])
        other = object.__new__(Helper)
        other.__dict__.update(self.__dict__)
        other.__rows = self.__rows.mapped(function, self.__read(batches))
        return other

    def release(self, summand: Summand, mechanism: GaussianSum) -> NoisySum:
        """Add this process's share of one sum over all units; return the leader's noised sum."""
        require_kind(mechanism, GaussianSum)
        return self.__sum(summand, mechanism)

    def steps(self, mechanism: PoissonSum, *, first: int = 0) -> Steps:
        """Join the leader's Poisson steps, for as long as it takes any.

        Args:
            mechanism: the same as the leader's.
            first: the number of the first step.
        """
        require_kind(mechanism, PoissonSum)

        def step(summand: Summand, number: int) -> tuple[NoisySum, int]:
            return self.__sum(summand, mechanism), number

        return Steps(step, lambda _: 1, mechanism, first)

    def __sum(self, summand: Summand, mechanism: Mechanism) -> NoisySum:
        team = self.__team
        batches = team.called(self.__rows.arrangement)
        if batches is None:
            raise Dismissed("The first process has taken its last sum.")
        own = self.__read(team.share(batches))
        team.total(clipped_sum(own, summand, mechanism.clip_norm))
        return NoisySum(team.hand_out(summand.zeros()), mechanism.noise_scale)

    def __read(self, batches: Iterable[tuple[int, Index]]) -> Iterator[Units]:
        return (self.__rows.batch(batch, self.__device, number) for number, batch in batches)

    def __repr__(self) -> str:
        return "Helper()"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A helper cannot be copied, pickled or sent: private rows stay here.")
