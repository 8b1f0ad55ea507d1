"""Rounds of asking: who answered, who is asked again, and who is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from privet.data.guard import shown
from privet.errors import DataError, PrivetError
from privet.federate.messages import Answer, Ask, Refusal

SILENT = "it did not answer in time"
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Reply:
    """What came of asking one node.

    Args:
        node: the id of the node.
        answer: the answer of its party; `None` if there is none.
        problem: why there is no answer.
        again: whether it may help to ask again.
    """

    node: str
    answer: Answer | None = None
    problem: str = SILENT
    again: bool = True


AskAll = Callable[[Ask, Sequence[str] | None], list[Reply]]
"""Asks these nodes, or all there are, and waits; one reply for each."""


class Rounds:
    """A server's side of the conversation.

    Args:
        ask_all: a function that asks nodes and waits for their replies.
        at_least: the number of parties without which a round fails.
        attempts: how often a node that does not answer is asked.
        note: called with sentences on who is left out.
    """

    def __init__(
        self, ask_all: AskAll, at_least: int, attempts: int, note: Callable[[str], None]
    ) -> None:
        self._ask_all, self._at_least, self._attempts = ask_all, at_least, attempts
        self._note = note
        self._names: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def agree(self, ask: Ask) -> None:
        """Find out, once and before anyone spends, who is there and has the same embedding."""
        if not self._names:
            found = self._asked(ask, None, lambda each: each)
            self._names = {node: each.party for node, (each, _) in found.items()}

    def gathered(
        self, ask: Ask, checked: Callable[[Answer], Value]
    ) -> dict[str, tuple[Answer, Value]]:
        """Ask all parties that agreed; return their checked answers by name.

        Args:
            ask: the message to send.
            checked: turns an answer into what is used of it, or raises a `DataError`.
        """
        found = self._asked(ask, list(self._names), checked)
        return {each.party: (each, value) for each, value in sorted(found.values(), key=_party)}

    def _asked(
        self, ask: Ask, nodes: Sequence[str] | None, checked: Callable[[Answer], Value]
    ) -> dict[str, tuple[Answer, Value]]:
        found: dict[str, tuple[Answer, Value]] = {}
        problems: dict[str, str] = {}
        asked = nodes
        for _ in range(self._attempts):
            again = []
            for reply in self._ask_all(ask, asked):
                try:
                    answer = self._answered(reply, [each for each, _ in found.values()])
                    found[reply.node] = answer, checked(answer)
                    problems.pop(self._name(reply), None)
                except DataError as problem:
                    problems[self._name(reply)] = str(problem)
                    again += [reply.node] if _may_help(reply) else []
            if not again:
                break
            asked = again
        self._leave_out(len(found), problems)
        return found

    def _name(self, reply: Reply) -> str:
        """The name of a party as it was first given, or else the id of its node."""
        if reply.node in self._names or reply.answer is None:
            return self._names.get(reply.node, reply.node)
        return shown(reply.answer.party)

    def _answered(self, reply: Reply, others: Sequence[Answer]) -> Answer:
        answer, known = reply.answer, self._names.get(reply.node)
        if answer is None:
            raise DataError(reply.problem)
        if answer.refusal is not None:
            raise DataError(answer.refusal)
        if known not in (None, answer.party):
            raise DataError(f"it called itself {shown(known)!r} before")
        if any(each.party == answer.party for each in others):
            raise DataError(f"another party is called {shown(answer.party)!r} too")
        return answer

    def _leave_out(self, count: int, problems: dict[str, str]) -> None:
        for name, why in problems.items():
            self._note(f"{name} is left out: {why.rstrip('.')}.")
        self.left_out |= problems
        if count < self._at_least:
            named = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in problems.items())
            raise PrivetError(
                f"{count} parties answered and {self._at_least} are needed "
                f"({named or 'nobody else is there'}): start the server again in the same folder, "
                "and parties send again what they paid for."
            )


def _party(found: tuple[Answer, object]) -> str:
    return found[0].party


def _may_help(reply: Reply) -> bool:
    """Whether to ask again: silence and work may end, any other refusal stays what it is."""
    if reply.answer is None:
        return reply.again
    return reply.answer.refusal is Refusal.BUSY
