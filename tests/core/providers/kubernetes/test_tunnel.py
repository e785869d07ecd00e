"""A port of this machine behind which is a pod's: bytes, encryption, credentials, and ends."""

import hashlib
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
import yaml
from tests.support.servers import eventually
from tests.support.services.kubernetes_cluster import TestCluster
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.tunnel import Tunnel

PORT = 8000
_HEADERS = (b"\0", b"\1")


class Api:
    """The part of an API server that forwards ports; behind the port is what sends everything back.

    Attributes:
        seen: Address, credentials and protocol of each connection.
        trouble: What channel 1 says instead.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, str | None]] = []
        self.trouble = b""
        self.open = 0

    def handle(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        credentials = connection.request.headers.get("Authorization")
        self.seen.append((connection.request.path, credentials, connection.subprotocol))
        for channel in _HEADERS:
            connection.send(channel + PORT.to_bytes(2, "little"))
        if self.trouble:
            connection.send(b"\1" + self.trouble)
        self.open += 1
        try:
            for frame in connection:
                assert isinstance(frame, bytes)
                assert frame[:1] == b"\0"
                connection.send(frame)
        except ConnectionClosed:
            pass
        finally:
            self.open -= 1


@contextmanager
def running(api: Api, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    settings = {"ssl": tls, "subprotocols": [Subprotocol("v4.channel.k8s.io")], "max_size": None}
    with serve(api.handle, "127.0.0.1", 0, **settings) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join(60)


def cluster_at(folder: Path, url: str, **cluster: str | bool) -> Cluster:
    file = folder / "kubeconfig"
    users = [{"name": "u", "user": {"token": "of-u"}}]
    contexts = [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "rl"}}]
    clusters = [{"name": "k", "cluster": {"server": url, **cluster}}]
    config = {"apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": users, "contexts": contexts}
    file.write_text(yaml.safe_dump({**config, "current-context": "c"}))
    return Cluster(kubeconfig=file)


@contextmanager
def tunnel_to(cluster: Cluster) -> Iterator[Tunnel]:
    tunnel = Tunnel(cluster, "p", PORT)
    try:
        yield tunnel
    finally:
        tunnel.close()


def exchange(port: int, data: bytes) -> bytes:
    """Send data through a port while what comes back is read, to its end or until as much has come.

    A connection that ends before all was taken from it is reset.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        received = bytearray()
        with suppress(ConnectionResetError):
            while len(received) < len(data) and (chunk := connection.recv(1 << 20)):
                received += chunk
        sender.join(60)
        return bytes(received)


def test_bytes_of_any_amount_arrive_as_they_were_sent(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(8 << 20)
    api = Api()
    with running(api) as port, tunnel_to(cluster_at(tmp_path, f"http://127.0.0.1:{port}")) as tunnel:
        assert hashlib.sha256(exchange(tunnel.port, data)).digest() == hashlib.sha256(data).digest()
    assert api.seen == [(f"/api/v1/namespaces/rl/pods/p/portforward?ports={PORT}", "Bearer of-u", "v4.channel.k8s.io")]


def test_connections_don_t_mix(tmp_path: Path) -> None:
    with running(Api()) as port, tunnel_to(cluster_at(tmp_path, f"http://127.0.0.1:{port}")) as tunnel:
        texts = [bytes([number]) * 50_000 for number in range(16)]
        received: dict[bytes, bytes] = {}
        threads = [
            threading.Thread(target=lambda text=text: received.update({text: exchange(tunnel.port, text)}))
            for text in texts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert received == {text: text for text in texts}


def server_tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def test_the_cluster_is_checked_by_its_certificate(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, issuer in (("authority", authority), ("stranger", stranger)):
        issuer.cert_pem.write_to_path(tmp_path / name)
    with running(Api(), server_tls(authority, "127.0.0.1")) as port:
        url = f"https://127.0.0.1:{port}"
        trusting = cluster_at(tmp_path, url, **{"certificate-authority": str(tmp_path / "authority")})
        with tunnel_to(trusting) as tunnel:
            assert exchange(tunnel.port, b"hello") == b"hello"
        doubting = cluster_at(tmp_path, url, **{"certificate-authority": str(tmp_path / "stranger")})
        with tunnel_to(doubting) as tunnel:
            assert exchange(tunnel.port, b"hello") == b""


def test_a_certificate_of_another_name_is_taken_where_the_kubeconfig_says_so(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority")
    trust = {"certificate-authority": str(tmp_path / "authority")}
    with running(Api(), server_tls(authority, "kubernetes.default.svc")) as port:
        url = f"https://127.0.0.1:{port}"
        with tunnel_to(cluster_at(tmp_path, url, **trust)) as tunnel:
            assert exchange(tunnel.port, b"hello") == b""
        named = cluster_at(tmp_path, url, **trust, **{"tls-server-name": "kubernetes.default.svc"})
        with tunnel_to(named) as tunnel:
            assert exchange(tunnel.port, b"hello") == b"hello"
        with tunnel_to(cluster_at(tmp_path, url, **{"insecure-skip-tls-verify": True})) as tunnel:
            assert exchange(tunnel.port, b"hello") == b"hello"


def test_what_the_cluster_could_not_do_ends_the_connection_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api()
    api.trouble = b"connection refused in the pod"
    with (
        caplog.at_level("INFO", "openenv"),
        running(api) as port,
        tunnel_to(cluster_at(tmp_path, f"http://127.0.0.1:{port}")) as tunnel,
    ):
        assert exchange(tunnel.port, b"x" * 1000) in (b"", b"x" * 1000)
        eventually(lambda: "connection refused in the pod" in caplog.text, "the trouble is told")


def test_closing_cuts_connections_at_both_ends(tmp_path: Path) -> None:
    api = Api()
    with running(api) as port:
        tunnel = Tunnel(cluster_at(tmp_path, f"http://127.0.0.1:{port}"), "p", PORT)
        with socket.create_connection(("127.0.0.1", tunnel.port), timeout=60) as connection:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
            tunnel.close()
            tunnel.close()
            assert connection.recv(1) == b""
        eventually(lambda: api.open == 0, "nothing is left open")


def test_a_client_that_goes_leaves_nothing_open(tmp_path: Path) -> None:
    api = Api()
    with running(api) as port, tunnel_to(cluster_at(tmp_path, f"http://127.0.0.1:{port}")) as tunnel:
        for _ in range(20):
            exchange(tunnel.port, b"bye")
        eventually(lambda: api.open == 0, "nothing is left open")


def test_a_pod_that_is_not_there(cluster: TestCluster) -> None:
    with tunnel_to(Cluster(kubeconfig=cluster.kubeconfig)) as tunnel:
        assert exchange(tunnel.port, b"hello") == b""


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ProviderError, match="Choose another port"):
        Tunnel(cluster_at(tmp_path, "http://127.0.0.1:1"), "p", PORT, taken.getsockname()[1])
