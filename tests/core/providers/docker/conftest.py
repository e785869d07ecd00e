"""Images and containers for the tests of everything that Docker does."""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from urllib.parse import urlsplit

import pytest
from tests.support.services import docker_engine

from openenv.core.containers.runtime import LocalDockerProvider

_SERVER = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

print("a small server starts", flush=True)
address = ("0.0.0.0", int(os.environ.get("PORT", "8000")))
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""

Start = Callable[..., LocalDockerProvider]


class FailingEngine(ThreadingMixIn, UnixStreamServer):
    """Listens like Docker's engine, and fails at all but what it has answers to, such as ``GET /version``."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, object] = {"GET /version": {"ApiVersion": "1.41"}, "GET /_ping": "OK"}
        self.asked: list[str] = []
        super().__init__(str(path), _FailingEngineHandler)


class _FailingEngineHandler(BaseHTTPRequestHandler):
    server: FailingEngine

    def do_GET(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        asked = f"{self.command} {re.sub('^/v[0-9.]+', '', urlsplit(self.path).path)}"
        self.server.asked.append(asked)
        known = asked in self.server.answers
        content = json.dumps(self.server.answers[asked] if known else {"message": "the disk is full"}).encode()
        self.send_response(200 if known else 500)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, form: str, *arguments: object) -> None:
        """Nothing: what was asked is in ``asked``."""


@pytest.fixture
def failing_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingEngine]:
    """An engine that is out of order, to which everything connects."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with FailingEngine(path) as engine:
        threading.Thread(target=engine.serve_forever, args=(0.01,)).start()
        yield engine
        engine.shutdown()


def runs(program: str) -> str:
    """The line of a Dockerfile that has an image run a program."""
    return f"CMD {json.dumps(['python3', '-u', '-c', program])}\n"


def inside(provider: LocalDockerProvider, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a container, as its server could."""
    assert provider.container_name is not None
    command = ["docker", "exec", provider.container_name, "python3", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="session")
def small_image() -> str:
    """An image with a server that answers /health, and no more."""
    return docker_engine.variant_of(docker_engine.python_image(), "small", runs(_SERVER))


@pytest.fixture(scope="session")
def labelled_image() -> str:
    """The same, with all the labels that ask for confinement."""
    labels = 'LABEL org.openenv.network="none" org.openenv.writable="/tmp" org.openenv.nested-sandbox="true"\n'
    return docker_engine.variant_of(docker_engine.python_image(), "labelled", f"USER 1000\n{labels}{runs(_SERVER)}")


@pytest.fixture(scope="session")
def echo_image() -> str:
    """The image of the environment that echoes."""
    return docker_engine.image_of("echo_env")


@pytest.fixture
def start(small_image: str) -> Iterator[Start]:
    """Start containers for the length of a test, and wait until their servers are ready: ``start(image, ...)``."""
    providers: list[LocalDockerProvider] = []

    def start_one(image: str = small_image, **options: object) -> LocalDockerProvider:
        provider = LocalDockerProvider(image, grace_s=0, **options)  # type: ignore[arg-type]
        providers.append(provider)
        provider.launch()
        return provider

    yield start_one
    for provider in providers:
        provider.shut_down()
