"""Federations over Flower: its server app, its client app, its simulation engine.

Flower carries messages between them; what they mean is none of its business. It would report its
use to its makers, and look for newer versions of itself: both are switched off here.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from privet.data.npz import read_header
from privet.errors import ConfigError, DataError
from privet.federate.answering import Note, answer, unheard
from privet.federate.messages import Answer, Ask
from privet.federate.party import Party
from privet.federate.requirements import require_flower
from privet.federate.rounds import Reply
from privet.federate.server import FederationResult, Server, conduct
from privet.recipes.releases import Tensors
from privet.runs.listening import Listener, Silent

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

_KIND, _HOME = "query", "FLWR_HOME"
_WORDS, _TENSORS, _JSON = "words", "tensors", "json"
_SECONDS_BETWEEN = 0.5


def client_app(party_of: Callable[[Mapping[str, Any]], Party], note: Note) -> ClientApp:
    """Flower's client app of whichever party a node belongs to.

    Args:
        party_of: gives the party, from the node's configuration.
        note: called with sentences for the owner.
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def query(message: Message, context: Context) -> Message:
        party = party_of(context.node_config)
        try:
            words, tensors = _unpacked(message.content)
            ask = Ask.read(words, tensors)
        except DataError as error:
            note(f"{party.name}: {error}")
            raise ValueError("The message cannot be read.") from None
        made = answer(party, ask, note)
        return Message(_packed(made.words(), made.tensors), reply_to=message)

    app.query()(query)
    return app


def server_app(
    server: Server, listener: Listener, done: Callable[[FederationResult], None]
) -> ServerApp:
    """Flower's server app of one federation.

    Args:
        server: the settings of the federation.
        listener: told of progress.
        done: called with the result.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        done(conduct(server, over(grid, server), listener))

    app.main()(main)
    return app


def over(grid: Grid, server: Server) -> Callable[[Ask, Sequence[str] | None], list[Reply]]:
    """A function by which a server asks parties through Flower."""

    def ask_all(ask: Ask, nodes: Sequence[str] | None) -> list[Reply]:
        from flwr.app import Message

        chosen = _nodes(grid, server) if nodes is None else [int(each) for each in nodes]
        content = _packed(ask.words(), ask.tensors())
        messages = [
            Message(content, dst_node_id=each, message_type=_KIND, ttl=server.seconds)
            for each in chosen
        ]
        replies = grid.send_and_receive(messages, timeout=server.seconds)
        found = {each.metadata.src_node_id: _reply(each) for each in replies}
        return [found.get(each, Reply(str(each))) for each in chosen]

    return ask_all


def _nodes(grid: Grid, server: Server) -> list[int]:
    """All nodes, once there are as many as expected parties or the time is up."""
    until = time.monotonic() + server.seconds
    while len(found := sorted(grid.get_node_ids())) < server.parties:
        if time.monotonic() > until:
            break
        time.sleep(_SECONDS_BETWEEN)
    return found


def _reply(message: Message) -> Reply:
    node = str(message.metadata.src_node_id)
    if message.has_error():
        return Reply(node, problem="its node failed")
    try:
        words, tensors = _unpacked(message.content)
        return Reply(node, Answer.read(words, tensors, f"Node {node}"))
    except DataError as error:
        return Reply(node, problem=str(error), again=False)


def _packed(words: str, tensors: Mapping[str, torch.Tensor]) -> RecordDict:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    arrays = {name: Array(each.detach().cpu().numpy()) for name, each in tensors.items()}
    return RecordDict({_WORDS: ConfigRecord({_JSON: words}), _TENSORS: ArrayRecord(arrays)})


def _unpacked(content: RecordDict) -> tuple[str, Tensors]:
    """The words and tensors of a message; nothing is unpickled."""
    try:
        words = content[_WORDS][_JSON]
        arrays = {name: _array(each) for name, each in content[_TENSORS].items()}
        tensors = {name: torch.from_numpy(np.array(each)) for name, each in arrays.items()}
    except Exception as error:  # whatever another machine sent
        raise DataError(f"A message cannot be read ({type(error).__name__}).") from None
    return str(words), tensors


def _array(sent: Any) -> Any:
    """Read an array; refused, before memory is taken, if it declares other bytes than were sent."""
    header = read_header(io.BytesIO(sent.data), "a message")
    if header.length + header.nbytes != len(sent.data):
        raise DataError("An array promises other bytes than were sent.")
    return sent.numpy()


def simulate(
    server: Server, parties: Sequence[Party], listener: Listener | None = None
) -> FederationResult:
    """Run a federation on one machine, by Flower's simulation engine: a process for each party.

    Args:
        server: the settings of the federation.
        parties: the parties, whose folders, data and ledgers all lie here.
        listener: told of progress.
    """
    require_flower(simulation=True)
    names = [each.name for each in parties]
    if len(set(names)) < len(names) or len(parties) != server.parties:
        raise ConfigError(f"Give {server.parties} parties with different names, not {names}.")
    from flwr.simulation import run_simulation

    def party_of(node: Mapping[str, Any]) -> Party:
        return parties[int(node["partition-id"])]

    found: list[FederationResult] = []
    errors: list[Exception] = []

    def listening(result: FederationResult) -> None:
        found.append(result)

    with tempfile.TemporaryDirectory(prefix="privet-federation-") as home:
        before = os.environ.get(_HOME)
        os.environ[_HOME] = home
        run_simulation(
            server_app=_caught(server_app(server, listener or Silent(), listening), errors),
            client_app=client_app(party_of, unheard),
            num_supernodes=len(parties),
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"include_dashboard": False, "log_to_driver": False},
            },
        )
    os.environ.pop(_HOME)
    if before is not None:
        os.environ[_HOME] = before
    if errors:
        raise errors[0]
    return found[0]


def _caught(app: ServerApp, errors: list[Exception]) -> ServerApp:
    """Wrap a server app so that its failure is kept for whoever started it."""
    from flwr.serverapp import ServerApp

    outer = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        try:
            app(grid, context)
        except Exception as error:
            errors.append(error)

    outer.main()(main)
    return outer
