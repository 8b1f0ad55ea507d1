"""Parties reach a server over gRPC alone.

Flower's SuperLink offers all it has at one HTTP port: messages for nodes, and the commands that
start runs and with them code. Only the first are for parties. It can offer those by themselves over
gRPC too, but its SuperNode speaks HTTP alone as of 1.41. Here the node's HTTP requests are carried
as the gRPC calls that they stand for, so that the HTTP port can stay on the server's own machine.
"""

from __future__ import annotations

import os
from base64 import b64decode
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import httpx

_SWITCH = "FLWR_INTERNAL_GRPC_FLEET_API"
_SERVICE = "/flwr.proto.Fleet/"
_STATUS = {
    grpc.StatusCode.UNAUTHENTICATED: httpx.codes.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: httpx.codes.FORBIDDEN,
}
_UNREACHED = {
    grpc.StatusCode.UNAVAILABLE: httpx.ConnectError,
    grpc.StatusCode.DEADLINE_EXCEEDED: httpx.ReadTimeout,
}


class GrpcTransport(httpx.BaseTransport):
    """HTTP requests of Flower's node, as calls of the same protobuf service.

    Args:
        channel: a gRPC channel to the server.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request as a gRPC call with the same bytes; signed headers become metadata."""
        call = self._channel.unary_unary(method_of(request.url.path))
        try:
            answered = call(
                request.read(),
                metadata=_metadata(request),
                timeout=request.extensions.get("timeout", {}).get("read"),
            )
        except grpc.RpcError as error:
            code, said = error.code(), error.details() or ""
            if code in _UNREACHED:
                raise _UNREACHED[code](said, request=request) from None
            status = _STATUS.get(code, httpx.codes.INTERNAL_SERVER_ERROR)
            return httpx.Response(status, text=said)
        return httpx.Response(httpx.codes.OK, content=answered)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def method_of(path: str) -> str:
    """The method of the service that an address stands for."""
    words = path.rpartition("/")[2].split("-")
    return _SERVICE + "".join(each.capitalize() for each in words)


def _metadata(request: httpx.Request) -> list[tuple[str, str | bytes]]:
    """Flower's headers as gRPC metadata, where keys and signatures are bytes and named so."""
    from flwr.common.constant import PUBLIC_KEY_HEADER, SIGNATURE_HEADER
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER

    in_bytes = {
        FLEET_HTTP_PUBLIC_KEY_HEADER: PUBLIC_KEY_HEADER,
        FLEET_HTTP_SIGNATURE_HEADER: SIGNATURE_HEADER,
    }
    return [
        (in_bytes[name], b64decode(value)) if name in in_bytes else (name, value)
        for name, value in request.headers.items()
        if name.startswith("flwr-")
    ]


def node_over_grpc() -> None:
    """Let Flower's SuperNode in this process reach its server over gRPC."""
    import flwr.supernode.fleet_http_connection as connection
    from flwr.supercore.grpc import create_channel

    own = connection.FleetHttpClient

    def connected(
        address: str, insecure: bool, roots: bytes | str | None, interceptors: Any
    ) -> Any:
        read = Path(roots).read_bytes() if isinstance(roots, str) else roots
        channel = create_channel(address, insecure, None if insecure else read)
        client = own.from_server_address(address, True, None, interceptors)
        plain = client._client
        client._client = httpx.Client(transport=GrpcTransport(channel), timeout=plain.timeout)
        plain.close()
        return client

    connection.FleetHttpClient = SimpleNamespace(from_server_address=connected)


def server_over_grpc(certificates: tuple[bytes, bytes, bytes] | None) -> None:
    """Let Flower's SuperLink in this process offer nodes what they need over gRPC, encrypted.

    Args:
        certificates: that of whoever signed the server's, the server's own, and its key; `None` for
            an unencrypted connection.
    """
    os.environ[_SWITCH] = "1"
    # by its name: a function of the same name hides the module
    superlink: Any = import_module("flwr.superlink.cli.flower_superlink")
    offered = superlink._run_fleet_api_grpc_rere

    def encrypted(**settings: Any) -> Any:
        return offered(**{**settings, "certificates": certificates})

    superlink._run_fleet_api_grpc_rere = encrypted
