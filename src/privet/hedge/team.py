"""Several processes that add up one private sum: one leads, the others lend a hand.

The leader alone has the reservation, the key of sampling and noise, and the noise. It says which
units a sum is about; everyone clips a share of them; the shares go to the leader and nowhere else.
What it hands out has left the hedge: it is paid for, and has its noise, which was added once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from privet.errors import DataError, PrivetError
from privet.hedge.clipping import ClippedSum
from privet.hedge.summand import Blocks
from privet.hedge.units import Index

_PATIENCE = timedelta(days=30)  # a leader may warm up for long; one that dies is noticed at once
_END, _CALL, _WORD = 0, 1, 2
_MEETING = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun tells its processes

Item = TypeVar("Item")


class TeamError(PrivetError):
    """Another process of the same job has ended."""


class Team(Protocol):
    """The processes that work on one job together."""

    @property
    def leads(self) -> bool:
        """Whether this process leads: it keeps the ledger and writes the files."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def share(self, items: Sequence[Item]) -> list[tuple[int, Item]]:
        """This process's part of a list, as (place in the list, item) pairs."""

    def call(self, batches: Sequence[Index], arrangement: int) -> None:
        """Leader: ask everyone to add up these batches of units.

        The arrangement says which rows are whose; all processes must have the same.
        """

    def total(self, own: ClippedSum) -> ClippedSum:
        """Add up everyone's shares; the leader gets the whole sum."""

    def hand_out(self, blocks: Blocks) -> Blocks:
        """Give the leader's blocks to every process."""

    def tell(self, word: bytes) -> None:
        """Leader: send a message to every process."""


@dataclass(frozen=True)
class Alone:
    """A team of one.

    Args:
        device: where this process computes.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    leads: bool = field(default=True, init=False)
    size: int = field(default=1, init=False)

    def share(self, items: Sequence[Item]) -> list[tuple[int, Item]]:
        """The whole list, as (place, item) pairs."""
        return list(enumerate(items))

    def call(self, batches: Sequence[Index], arrangement: int) -> None:
        """Do nothing: there is no other process to call."""

    def total(self, own: ClippedSum) -> ClippedSum:
        """The sum as it is, since nobody else has a share of it."""
        return own

    def hand_out(self, blocks: Blocks) -> Blocks:
        """The blocks as they are, since nobody else needs them."""
        return blocks

    def tell(self, word: bytes) -> None:
        """Do nothing: there is no other process to tell."""


class Processes:
    """A team of processes over `torch.distributed`, as torchrun starts them.

    Args:
        device: where this process computes, and where tensors to send lie.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    @property
    def leads(self) -> bool:
        """Whether this is the process of rank 0."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> list[tuple[int, Item]]:
        """Every n-th item for n processes, so that shares are equal, as (place, item) pairs."""
        return list(enumerate(items))[self.rank :: self.size]

    def call(self, batches: Sequence[Index], arrangement: int) -> None:
        """Leader: send a header, the number of units in each batch, and the units themselves."""
        numbers = [_numbers(batch) for batch in batches]
        self._send([_CALL, arrangement, len(numbers), sum(map(len, numbers))])
        self._send([len(each) for each in numbers])
        if numbers:
            self._broadcast(torch.from_numpy(np.concatenate(numbers)))

    def called(self, arrangement: int) -> list[Index] | None:
        """Helper: receive the batches of the next sum, or `None` if there will be no other.

        Guarantees:
            A unit is the same rows in every process, or nothing is added up.
        """
        kind, theirs, count, total = self._received(4)
        if kind == _END:
            return None
        if theirs != arrangement:
            raise DataError(
                f"Process {self.rank} has other private rows than the first: give all the same."
            )
        sizes = self._received(count)
        if not sizes:
            return []
        units = self._broadcast(torch.empty(total, dtype=torch.int64)).cpu().numpy()
        return list(np.split(units, np.cumsum(sizes)[:-1]))

    def total(self, own: ClippedSum) -> ClippedSum:
        """Add up everyone's shares at the leader, in double precision: their order is no matter."""
        flat = torch.cat([block.reshape(-1) for block in own.values()]).to(self.device)
        with _noticed():
            dist.reduce(flat, 0)
        return ClippedSum(_shaped(flat, own))

    def hand_out(self, blocks: Blocks) -> Blocks:
        """Give the leader's blocks to every process, sent as doubles, which hold all precisions."""
        flat = torch.cat([block.reshape(-1).double() for block in blocks.values()])
        return _shaped(self._broadcast(flat), blocks)

    def tell(self, word: bytes) -> None:
        """Leader: send a message to every process, its length first."""
        self._send([_WORD, len(word), 0, 0])
        self._broadcast(_letters(word))

    def told(self) -> bytes | None:
        """Helper: receive the leader's next message, or `None` if there will be no other."""
        kind, length, *_ = self._received(4)
        if kind == _END:
            return None
        return self._broadcast(torch.empty(length, dtype=torch.uint8)).cpu().numpy().tobytes()

    def give(self, word: bytes) -> None:
        """Helper: send a message to the leader."""
        with _noticed():
            dist.send(torch.tensor([len(word)]).to(self.device), 0)
            dist.send(_letters(word).to(self.device), 0)

    def given_by(self, rank: int) -> bytes:
        """Leader: receive a message from the helper of that rank."""
        length = torch.empty(1, dtype=torch.int64, device=self.device)
        with _noticed():
            dist.recv(length, rank)
            word = torch.empty(int(length), dtype=torch.uint8, device=self.device)
            dist.recv(word, rank)
        return word.cpu().numpy().tobytes()

    def end(self) -> None:
        """Leader: tell every helper that it may end."""
        self._send([_END, 0, 0, 0])

    def _send(self, numbers: list[int]) -> None:
        self._broadcast(torch.tensor(numbers, dtype=torch.int64))

    def _received(self, count: int) -> list[int]:
        found: list[int] = self._broadcast(torch.empty(count, dtype=torch.int64)).tolist()
        return found

    def _broadcast(self, tensor: Tensor) -> Tensor:
        tensor = tensor.to(self.device)
        if tensor.numel():
            with _noticed():
                dist.broadcast(tensor, 0)
        return tensor


def started_by_torchrun() -> bool:
    """Whether torchrun started this process beside others.

    A cluster may set WORLD_SIZE for other reasons, so all of torchrun's variables must be there.
    """
    if not all(os.environ.get(name) for name in _MEETING):
        return False
    return int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def assembled(device: torch.device) -> Iterator[Processes | Alone]:
    """Join the team of this job until the leader is done; without torchrun, a team of one."""
    if not started_by_torchrun():
        yield Alone(device)
        return
    place = _own(device)
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        team = Processes(place)
        try:
            yield team
        finally:
            if team.leads:
                with suppress(TeamError):
                    team.end()
    finally:
        dist.destroy_process_group()


def _own(device: torch.device) -> torch.device:
    """The GPU of this process, where a run asked for any GPU."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


@contextmanager
def _noticed() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, dist.DistBackendError) as error:
        raise TeamError(
            "Another process of this job has ended: see what it says, then go on with --resume."
        ) from error


def _letters(word: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(word, np.uint8).copy())


def _numbers(batch: Index) -> Any:
    return np.arange(batch.start, batch.stop) if isinstance(batch, slice) else batch


def _shaped(flat: Tensor, like: Mapping[str, Tensor]) -> Blocks:
    pieces = torch.split(flat, [block.numel() for block in like.values()])
    return {
        name: piece.view(block.shape).to(block)
        for (name, block), piece in zip(like.items(), pieces, strict=True)
    }
