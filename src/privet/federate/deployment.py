"""Federations over a network: Flower's SuperLink at the server, a SuperNode at each party."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from privet.errors import ConfigError, PrivetError
from privet.federate.deployed import OUTCOME, Terminal, read_settings
from privet.federate.flower_nodes import LINK, NODE, PARTY, SERVER, write_app
from privet.federate.party import Party
from privet.federate.requirements import QUIET, require_flower
from privet.federate.server import FederationResult, Server, finished
from privet.runs.run_folder import RunFolder

_HERE = "127.0.0.1"
_SECONDS_TO_START = 180.0
_SECONDS_TO_STOP = 10.0
_SECONDS_BETWEEN = 0.3
_OURS = (sys.executable, "-m", "privet.federate.flower_nodes")
_NO_INSTALLS = ("--disable-runtime-dependency-installation",)


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
        with _process([*_OURS, LINK, _pem_files(link), *words], environment) as superlink:
            _wait_for_port(link, port, superlink)
            _submit(home, settings, port, environment)
            said = _outcome(home / OUTCOME, superlink)
    if said["error"] is not None:
        error = PrivetError(str(said["error"]))
        error.exit_code = int(str(said["exit_code"]))
        raise error
    return finished(RunFolder(Path(server.out), "federate"))


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
        command = [*_OURS, NODE, *words]
        with _process(command, _environment(home)) as node:
            try:
                node.wait()
            except KeyboardInterrupt:
                Terminal().note("Stopped: what was paid for is in the party's folder.")
                return
    if node.returncode:
        raise PrivetError("Flower's SuperNode ended: is the server at that address?")


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
