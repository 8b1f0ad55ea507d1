"""The apps that Flower's own processes load: each finds its settings where its owner put them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from privet import plain_json
from privet.errors import DataError, PrivetError
from privet.federate.flower import client_app, over
from privet.federate.flower_nodes import PARTY, SERVER
from privet.federate.party import Party
from privet.federate.requirements import require_flower
from privet.federate.server import Server, conduct

OUTCOME = "outcome.json"


class Terminal:
    """A listener that writes notes as log lines to stderr."""

    def note(self, sentence: str) -> None:
        """Write a note as one line."""
        sys.stderr.write(sentence + "\n")

    def progress(self, name: str) -> Callable[[int, int], None]:
        """Ignore progress, which does not belong in a log."""
        return lambda _done, _total: None


def read_settings(path: str) -> Any:
    """Read settings from a JSON file."""
    try:
        return plain_json.read(Path(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from None


def _party_of(node: Mapping[str, Any]) -> Party:
    return Party.from_json(read_settings(str(node[PARTY])))


def __getattr__(name: str) -> Any:
    """Make the apps when Flower asks for them."""
    if name == "client":
        require_flower()
        return client_app(_party_of, Terminal().note)
    if name == "server":
        require_flower()
        return _server_app()
    raise AttributeError(name)


def _server_app() -> Any:
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        settings = str(context.run_config[SERVER])
        server, outcome = Server(**read_settings(settings)), Path(settings).parent / OUTCOME
        try:
            conduct(server, over(grid, server), Terminal())
            said: dict[str, Any] = {"error": None}
        except PrivetError as error:
            said = {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            outcome.write_text(json.dumps({"error": repr(error), "exit_code": 1}))
            raise
        draft = outcome.with_suffix(".part")
        draft.write_text(json.dumps(said), encoding="utf-8")
        draft.replace(outcome)

    app.main()(main)
    return app
