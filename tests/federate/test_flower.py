"""Flower's own engines: its simulation, and its processes on loopback."""

import datetime
import ipaddress
import json
import os
import signal
import subprocess
import sys
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path

import pytest

from privet.data import load
from privet.errors import ConfigError, PrivacyError
from privet.federate import requirements
from privet.privacy import Ledger
from tests.federate.small import ENCODER, METHOD, STAGED, parties_in

pytestmark = pytest.mark.timeout(1000)  # a dozen processes, on machines that are slow at times
needs_flower = pytest.mark.skipif(
    find_spec("flwr") is None or find_spec("ray") is None,
    reason="Flower is not installed: pip install 'privet[distributed]'",
)


def privet(words, folder, **more):
    """The command in a process of its own, in which nothing reaches beyond this machine."""
    nowhere = dict.fromkeys(("https_proxy", "http_proxy"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "no_proxy": "127.0.0.1", "HOME": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "privet", "federate", *words],
        env=environment,
        cwd=folder,
        text=True,
        **more,
    )


def spent(folder):
    [record] = Ledger.open(folder / "ledger.db").records()
    return record.spent


@needs_flower
def test_parties_in_flowers_simulation_of_which_one_fails_and_is_left_out_by_name(tmp_path):
    parties_in(tmp_path)
    (tmp_path / "dog.npz").write_bytes(b"nonsense")
    words = ["simulate", "--method", STAGED, "--at-least", "3", "--out", str(tmp_path / "out")]
    for name, epsilon in (("ant", 2), ("bee", 5), ("cow", 1), ("dog", 2)):
        words += ["--party", f"{name}={tmp_path / name}.npz,epsilon={epsilon}"]
    words += ["--public", str(tmp_path / "public.npz"), "--encoder", ENCODER, "--count", "30"]
    words += ["--epsilon", "2", "--delta", "1e-5", "--declared-size", "90", "--json"]
    made = privet(words, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = made.communicate(timeout=900)
    assert made.returncode == 0, error[-2000:]
    found = json.loads(out)
    assert found["stages"] == [["ant", "bee", "cow"]] * 2
    assert found["left_out"] == {"dog": "its data cannot be used"}
    assert found["private"]
    assert len(load(tmp_path / "out" / "server" / "synthetic")) == 30
    for name in ("ant", "bee", "cow"):
        assert sum(spent(tmp_path / "out" / "parties" / name)) == 2


def certificates(folder):
    """PEM files of an authority, and of a server on loopback whose certificate it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def signed(name, key, issuer, issuer_key, **extensions):
        today = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(today - datetime.timedelta(days=1))
        builder = builder.not_valid_after(today + datetime.timedelta(days=1))
        for extension in extensions.values():
            builder = builder.add_extension(extension, critical=False)
        made = builder.sign(issuer_key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    def named(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    key = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    files = {
        "ca.pem": signed("authority", authority, "authority", authority, ca=constraints),
        "server.pem": signed("server", own, "authority", authority, where=here),
        "server.key": key,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)


@needs_flower
def test_parties_over_flowers_grpc_on_loopback_with_tls(tmp_path):
    from privet.federate.deployment import free_port

    parties_in(tmp_path)
    certificates(tmp_path)
    port = free_port()
    common = ["--public", str(tmp_path / "public.npz"), "--encoder", ENCODER, "--delta", "1e-5"]
    common += ["--address", f"127.0.0.1:{port}", "--root-certificates", "ca.pem"]
    clients = [
        privet(
            ["client", f"{name}.npz", "--party", name, "--epsilon", "2", "--out", name, *common],
            tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("ant", "bee")
    ]
    with (tmp_path / "server.log").open("w+") as log:
        words = ["--epsilon", "2", "--count", "30", "--parties", "2", "--declared-size", "90"]
        words += ["--method", METHOD, "--seconds", "400", "--json", "--out", str(tmp_path / "made")]
        words += ["--certificate", "server.pem", "--key", "server.key"]
        server = privet(["server", *words, *common], tmp_path, stdout=subprocess.PIPE, stderr=log)
        try:
            out, _ = server.communicate(timeout=900)
        finally:
            for each in (*clients, server):
                each.send_signal(signal.SIGTERM)
            for each in (*clients, server):
                each.wait(60)
        said = Path(log.name).read_text()
        assert server.returncode == 0, said[-3000:]
    assert f"Fleet API (gRPC-rere) on 127.0.0.1:{port}" in said
    found = json.loads(out[out.index("{\n") :])
    assert found["stages"] == [["ant", "bee"]]
    assert [sum(spent(tmp_path / name)) for name in ("ant", "bee")] == [1, 1]
    assert len(load(tmp_path / "made" / "synthetic")) == 30


@needs_flower
def test_a_nodes_requests_are_the_calls_that_they_stand_for():
    import grpc
    import httpx
    from flwr.common.constant import PUBLIC_KEY_HEADER
    from flwr.proto import fleet_pb2
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

    from privet.federate.over_grpc import GrpcTransport, method_of

    methods = {each.name for each in fleet_pb2.DESCRIPTOR.services_by_name["Fleet"].methods}
    seen = []

    def heard(details):
        def answer(request, context):
            seen.append((details.method, dict(details.invocation_metadata), request))
            if request == b"who?":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "a stranger")
            return b"answered"

        return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(1))
    handler = type("Handler", (grpc.GenericRpcHandler,), {"service": lambda _, each: heard(each)})
    server.add_generic_rpc_handlers((handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    headers = {FLEET_HTTP_PUBLIC_KEY_HEADER: "AQID", "flwr-timestamp": "now", "cookie": "none"}
    with httpx.Client(transport=GrpcTransport(grpc.insecure_channel(f"127.0.0.1:{port}"))) as node:
        url = "http://127.0.0.1/v1/fleet/pull-messages"
        assert node.post(url, content=b"asked", headers=headers).content == b"answered"
        assert node.post(url, content=b"who?").status_code == 401
        server.stop(None).wait()
        with pytest.raises(httpx.ConnectError):
            node.post(url, content=b"asked")
    method, metadata, request = seen[0]
    assert (method, request) == ("/flwr.proto.Fleet/PullMessages", b"asked")
    assert metadata[PUBLIC_KEY_HEADER] == b"\1\2\3"
    assert metadata["flwr-timestamp"] == "now"
    assert "cookie" not in metadata
    assert method_of("/v1/fleet/confirm-message-received").rpartition("/")[2] in methods


@needs_flower
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower imports
def test_a_party_runs_no_code_but_its_own(tmp_path):
    from flwr.cli.build import build_fab_from_disk

    from privet.federate.flower_nodes import app_digest, require_own_app, write_app

    app = write_app(tmp_path / "app")
    require_own_app(build_fab_from_disk(app), app_digest())
    (app / "privet_federation.py").write_text("print('your data, please')\n")
    with pytest.raises(PrivacyError, match="other code than Privet's own"):
        require_own_app(build_fab_from_disk(app), app_digest())


def test_flowers_own_processes_do_not_wait_for_torch():
    check = "import sys, privet.federate.flower_nodes; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


@needs_flower
def test_flower_reports_to_nobody():
    check = (
        "from privet.federate.requirements import require_flower\nrequire_flower()\n"
        "import flwr.app\nfrom flwr.supercore import telemetry, update_check\n"
        "assert telemetry.FLWR_TELEMETRY_ENABLED == '0'\n"
        "import os; assert os.environ['FLWR_DISABLE_UPDATE_CHECK'] == '1'\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_without_flower_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    for name in requirements.QUIET:
        monkeypatch.setenv(name, "")
    with pytest.raises(ConfigError, match=r"need flwr and ray: pip install 'privet.distributed.'"):
        requirements.require_flower(simulation=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"address": "nowhere"}, "HOST:PORT"),
        ({"address": "a:1"}, "--root-certificates"),
        ({"address": "a:99999", "insecure": True}, "HOST:PORT"),
        ({"address": "a:1", "insecure": True, "root_certificates": "x"}, "--root-certificates"),
    ],
)
def test_links_that_cannot_be(words, said):
    from privet.federate.deployment import Link

    with pytest.raises(ConfigError, match=said):
        Link(**words)


@needs_flower
def test_a_party_ends_when_it_is_told_to(tmp_path):
    parties_in(tmp_path)
    words = ["client", "ant.npz", "--party", "ant", "--public", "public.npz", "--epsilon", "1"]
    words += ["--delta", "1e-5", "--out", "ant", "--address", "127.0.0.1:9", "--insecure"]
    client = privet(words, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert client.stdout is not None
    assert any("Starting Flower SuperNode" in line for line in client.stdout)
    client.send_signal(signal.SIGTERM)
    client.communicate(timeout=60)
    assert client.returncode == 0
    assert not (tmp_path / "ant" / "ledger.db").exists()
