"""Several owners, one synthetic set: noised sums that add up, carried by Flower."""

from typing import TYPE_CHECKING

from privet.on_use import on_use

if TYPE_CHECKING:
    from privet.federate.agreement import Agreement
    from privet.federate.answering import answer
    from privet.federate.messages import Answer, Ask, Refusal
    from privet.federate.party import Party
    from privet.federate.rounds import Reply, Rounds
    from privet.federate.server import FederationResult, Server, conduct
    from privet.federate.sums import added

__all__ = [
    "Agreement",
    "Answer",
    "Ask",
    "FederationResult",
    "Party",
    "Refusal",
    "Reply",
    "Rounds",
    "Server",
    "added",
    "answer",
    "conduct",
]

__getattr__, __dir__ = on_use(
    __name__,
    {
        "agreement": ("Agreement",),
        "answering": ("answer",),
        "messages": ("Answer", "Ask", "Refusal"),
        "party": ("Party",),
        "rounds": ("Reply", "Rounds"),
        "server": ("FederationResult", "Server", "conduct"),
        "sums": ("added",),
    },
)
