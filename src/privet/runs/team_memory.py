"""What a team remembers: the leader as in its folder, helpers as it tells them.

Everyone goes through the same recipe and asks for the same things in the same order. What comes one
after the other is made by the leader and told to all; what does not depend on each other, a stage's
batches, is dealt out; a release is added up by all of them. Once all of that is known, everyone
works apart, on images of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from safetensors.torch import load, save

from privet.hedge import Dismissed, Processes, Team
from privet.recipes.releases import NoMemory, Tensors
from privet.release import Embedding
from privet.runs.folder_memory import FolderMemory

Item = TypeVar("Item")
_ADD_UP = b""  # for there is no release yet


class _Known(NoMemory):
    """A memory of what everyone was told, which knows whether they work apart."""

    def __init__(self, team: Processes) -> None:
        self._team, self._known, self._apart = team, dict[str, Tensors](), False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let everyone work apart in this block: nobody waits for anybody."""
        before, self._apart = self._apart, True
        try:
            yield
        finally:
            self._apart = before


class LeadersMemory(_Known):
    """The leader's memory: that of the folder, told to everyone.

    Args:
        folder: the memory of the run's folder.
        team: the team that this process leads.
    """

    def __init__(self, folder: FolderMemory, team: Processes) -> None:
        super().__init__(team)
        self._folder = folder

    @property
    def folder(self) -> FolderMemory:
        """The memory of the run's folder, which is durable."""
        return self._folder

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Read or make it as the folder does, and tell everyone unless they work apart."""
        if name in self._known:
            return self._known[name]
        found = self._folder.once(name, make)
        return found if self._apart else self._told(name, found)

    def every(self, names: Sequence[str], make: Callable[[int], Tensors]) -> list[Tensors]:
        """Deal out what the folder lacks; then tell everyone all of it."""
        missing = [place for place, name in enumerate(names) if not self._folder.has(name)]
        self._team.tell(json.dumps(missing).encode())
        for turn in rounds(missing, self._team.size):
            with self.apart():
                self._folder.once(names[turn[0]], partial(make, turn[0]))
            for rank, place in enumerate(turn[1:], 1):
                self._folder.once(names[place], partial(load, self._team.given_by(rank)))
        return [self._told(name, self._folder.once(name, dict)) for name in names]

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Read a release from the folder, or let everyone add it up; then tell everyone."""

        def together() -> Tensors:
            self._team.tell(_ADD_UP)
            return make()

        return self._told(name, self._folder.paid(name, embedding, together))

    def unfinished(self, name: str, *, paid: bool = False) -> Tensors | None:
        """Return what the folder keeps, since nobody else trains."""
        return self._folder.unfinished(name, paid=paid)

    def keep(self, name: str, state: Tensors) -> None:
        """Keep it in the folder."""
        self._folder.keep(name, state)

    def _told(self, name: str, found: Tensors) -> Tensors:
        self._team.tell(
            save({key: each.detach().cpu().contiguous() for key, each in found.items()})
        )
        self._known[name] = found
        return found


class HelpersMemory(_Known):
    """A helper's memory: what the leader tells.

    Args:
        team: the team that another process leads.
    """

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Hear it from the leader; make it oneself where everyone works apart."""
        if name not in self._known:
            self._known[name] = make() if self._apart else load(self._heard())
        return self._known[name]

    def every(self, names: Sequence[str], make: Callable[[int], Tensors]) -> list[Tensors]:
        """Make a share of what is missing; then hear all of it."""
        missing = json.loads(self._heard())
        for turn in rounds(missing, self._team.size):
            if self._team.rank < len(turn):
                with self.apart():
                    self._team.give(save(make(turn[self._team.rank])))
        for name in names:
            self._known[name] = load(self._heard())
        return [self._known[name] for name in names]

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Hear a release from the leader; if it is still to be made, add a share up first."""
        word = self._heard()
        if word == _ADD_UP:
            make()
            word = self._heard()
        return load(word)

    def _heard(self) -> bytes:
        word = self._team.told()
        if word is None:
            raise Dismissed("The first process has nothing more to do.")
        return word


def shared(folder: FolderMemory, team: Team) -> FolderMemory | LeadersMemory:
    """Make the memory that tells a whole team; that of the folder for one process."""
    return LeadersMemory(folder, team) if isinstance(team, Processes) else folder


def apart(memory: FolderMemory | LeadersMemory) -> AbstractContextManager[None]:
    """Make a block in which everyone works apart: nobody waits for anybody."""
    return memory.apart() if isinstance(memory, LeadersMemory) else nullcontext()


def rounds(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Cut items into rounds, in order, of one for each process; the last may be short."""
    return [items[start : start + size] for start in range(0, len(items), size)]
