"""Flower's own processes: its SuperLink at the server, a SuperNode at each party.

Flower sends a run's code to the nodes. A party that ran whatever code a server sends would have
given its data away, so a party's node takes one app only: Privet's own, as its owner installed it.
Neither process computes anything, and neither imports torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from privet.errors import PrivacyError
from privet.paths import as_path

LINK, NODE = "superlink", "supernode"
PARTY, SERVER = "party", "server"
"""The names under which Flower hands on where settings lie."""
_FILES = {
    "pyproject.toml": f"""[project]
name = "privet-federation"
version = "1.0.0"
description = "Federated releases of Privet."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "privet"

[tool.flwr.app.components]
serverapp = "privet_federation:server"
clientapp = "privet_federation:client"

[tool.flwr.app.config]
{SERVER} = ""
""",
    "privet_federation.py": '"""What Flower loads: Privet, as it is installed."""\n\n'
    "from privet.federate.deployed import client, server\n\n"
    '__all__ = ["client", "server"]\n',
}


def _node(words: Sequence[str]) -> None:
    """Run Flower's SuperNode in this process, for Privet's own app and no other."""
    import flwr.supernode.start_client_internal as internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    from privet.federate.over_grpc import node_over_grpc

    own = app_digest()
    fused = internal.get_fused_config_from_fab

    def checked(content: bytes, *more: object) -> object:
        require_own_app(content, own)
        return fused(content, *more)

    internal.get_fused_config_from_fab = checked
    node_over_grpc()
    sys.argv = ["flower-supernode", *words]
    flower_supernode()


def _end_with(parent: int) -> None:
    """End this process and its children when whoever started it is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgid(0), signal.SIGTERM)


def require_own_app(content: bytes, own: str) -> None:
    """Refuse code that is not what this Privet would have sent itself."""
    if hashlib.sha256(content).hexdigest() != own:
        raise PrivacyError(
            "The server sent other code than Privet's own: it is not run. Use the same versions of "
            "Privet and Flower as the server."
        )


def app_digest() -> str:
    """The digest of Privet's app as Flower packs it."""
    from flwr.cli.build import build_fab_from_files

    packed, _ = build_fab_from_files({name: text.encode() for name, text in _FILES.items()})
    return hashlib.sha256(packed).hexdigest()


def write_app(folder: Path) -> Path:
    """Write the two files of a Flower app into a new folder; return the folder."""
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _link(words: Sequence[str]) -> None:
    """Run Flower's SuperLink in this process; parties reach it over gRPC, all else is local."""
    from flwr.superlink.cli.flower_superlink import flower_superlink

    from privet.federate.over_grpc import server_over_grpc

    files, *rest = words
    pems = [as_path(each).read_bytes() for each in json.loads(files)]
    server_over_grpc((pems[0], pems[1], pems[2]) if pems else None)
    sys.argv = ["flower-superlink", *rest]
    flower_superlink()


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    {LINK: _link, NODE: _node}[sys.argv[1]](sys.argv[2:])
