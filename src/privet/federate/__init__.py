"""Several owners, one synthetic set: noised sums that add up, carried by Flower."""

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
