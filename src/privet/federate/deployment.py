"""Federations over a network: Flower's SuperLink at the server, a SuperNode at each party.

Flower sends a run's code to the nodes. A party that ran whatever code a server sends would have
given its data away, so a party's node takes one app only: Privet's own, as its owner installed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from privet.errors import ConfigError, PrivacyError, PrivetError
from privet.federate.deployed import OUTCOME, PARTY, SERVER, Terminal, read_settings
from privet.federate.flower import QUIET, require_flower
from privet.federate.party import Party
from privet.federate.server import FederationResult, Server, finished
from privet.paths import as_path
from privet.runs.run_folder import RunFolder

_APP = "privet_federation.py"
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
    _APP: '"""What Flower loads: Privet, as it is installed."""\n\n'
    "from privet.federate.deployed import client, server\n\n"
    '__all__ = ["client", "server"]\n',
}
_HERE = "127.0.0.1"
_SECONDS_TO_START = 180.0
_SECONDS_TO_STOP = 10.0
_SECONDS_BETWEEN = 0.3


@dataclass(frozen=True, kw_only=True)
class Link:
    """Where the server listens, and how a connection is protected.

    Args:
        address: host:port of the server.
        insecure: go without TLS, on one machine or in one's own network.
        root_certificates: file of certificates of whoever signed the server's.
        certificate: file of the server's certificate.
        key: file of the server's key.
    """

    address: str
    insecure: bool = False
    root_certificates: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"--address is {self.address!r}: give HOST:PORT.")
        if self.insecure == (self.root_certificates is not None):
            raise ConfigError(
                "Give --root-certificates, so that the connection is encrypted; or --insecure on "
                "one machine."
            )


def serve(server: Server, link: Link) -> FederationResult:
    """Run a federation from beginning to end, with Flower's SuperLink in the meantime.

    Args:
        server: the settings of the federation.
        link: where parties find it.
    """
    require_flower()
    if not link.insecure and not (link.certificate and link.key):
        raise ConfigError("Give --certificate and --key of the server, or --insecure.")
    with tempfile.TemporaryDirectory(prefix="privet-server-") as place:
        home = Path(place)
        settings = home / "server.json"
        settings.write_text(json.dumps(asdict(server)), encoding="utf-8")
        environment = _environment(home)
        port = free_port()
        words = ["--insecure", "--host", _HERE, "--port", str(port), *_NO_INSTALLS]
        words += ["--fleet-api-address", link.address]
        with _process([*_OURS, _LINK, _pem_files(link), *words], environment) as superlink:
            _wait_for_port(link, port, superlink)
            _submit(home, settings, port, environment)
            said = _outcome(home / OUTCOME, superlink)
    if said["error"] is not None:
        error = PrivetError(str(said["error"]))
        error.exit_code = int(str(said["exit_code"]))
        raise error
    return finished(RunFolder(Path(server.out), "federate"))


_OURS = (sys.executable, "-m", "privet.federate.deployment")
_LINK, _NODE = "superlink", "supernode"
_NO_INSTALLS = ("--disable-runtime-dependency-installation",)


def _pem_files(link: Link) -> str:
    files = [] if link.insecure else [link.root_certificates, link.certificate, link.key]
    return json.dumps(files)


def _submit(home: Path, settings: Path, port: int, environment: Mapping[str, str]) -> None:
    """Start the run, in which Flower loads our apps."""
    app = write_app(home / "app")
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{_HERE}:{port}"\n'
        "insecure = true\n",
        encoding="utf-8",
    )
    config = f"{SERVER}={json.dumps(str(settings))}"
    done = subprocess.run(
        ["flwr", "run", str(app), "here", "--run-config", config],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PrivetError(f"Flower did not start the run: {_last(done.stderr or done.stdout)}")


def _outcome(file: Path, superlink: subprocess.Popen[bytes]) -> dict[str, object]:
    while not file.exists():
        if superlink.poll() is not None:
            raise PrivetError("Flower's SuperLink ended before the federation did: start it again.")
        time.sleep(_SECONDS_BETWEEN)
    said: dict[str, object] = read_settings(str(file))
    return said


def take_part(party: Party, link: Link) -> None:
    """Answer a server, through Flower's SuperNode, until someone stops it.

    Args:
        party: the party, with its data, ledger and folder.
        link: where the server is.
    """
    require_flower()
    with tempfile.TemporaryDirectory(prefix="privet-party-") as place:
        home = Path(place)
        settings = home / "party.json"
        settings.write_text(json.dumps(party.to_json()), encoding="utf-8")
        words = ["--superlink", link.address, "--host", _HERE, "--port", str(free_port())]
        words += ["--insecure"] if link.insecure else []
        if link.root_certificates is not None:
            words += ["--root-certificates", link.root_certificates]
        words += ["--node-config", f"{PARTY}={json.dumps(str(settings))}"]
        command = [*_OURS, _NODE, *words]
        with _process(command, _environment(home)) as node:
            try:
                node.wait()
            except KeyboardInterrupt:
                Terminal().note("Stopped: what was paid for is in the party's folder.")
                return
    if node.returncode:
        raise PrivetError("Flower's SuperNode ended: is the server at that address?")


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


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind((_HERE, 0))
        return int(found.getsockname()[1])


def _environment(home: Path) -> dict[str, str]:
    """Environment variables that keep Flower quiet, with its files in a folder of ours."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


@contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process inside a `with` block; it and its children end with us, also on SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = subprocess.Popen(command, env=dict(environment), start_new_session=True)
    try:
        yield made
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(made.pid, number)
                made.wait(_SECONDS_TO_STOP)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        signal.signal(signal.SIGTERM, before)


def _wait_for_port(link: Link, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the SuperLink takes runs, which it does once parties can reach it."""
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex((_HERE, port)) == 0:
                return
        time.sleep(_SECONDS_BETWEEN)
    raise PrivetError(f"Flower's SuperLink does not listen at {link.address}: is it in use?")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"


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
    {_LINK: _link, _NODE: _node}[sys.argv[1]](sys.argv[2:])
