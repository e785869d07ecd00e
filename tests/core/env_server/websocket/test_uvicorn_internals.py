"""The methods of uvicorn that the server overrides or relies on are those that it was written for."""

import ast
import functools
import hashlib
import inspect
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from uvicorn import Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from openenv.core.env_server.http.uvicorn_connections import TimedRequests
from openenv.core.env_server.operations.drain import DrainingServer
from openenv.core.env_server.websocket.uvicorn_sockets import DecisiveSockets
from openenv.core.env_server.workers.worker import WorkerServer

# A digest of each method's source, as the classes above were written for.
KNOWN = {
    "H11Protocol.__init__": "ad1ed8e837b2",
    "H11Protocol.connection_lost": "dbb688fa2b38",
    "H11Protocol.connection_made": "6efb565ff3d3",
    "H11Protocol.data_received": "e03b145518ca",
    "H11Protocol.handle_websocket_upgrade": "6f42a029e35a",
    "H11Protocol.on_response_complete": "1fbb8f48c6a1",
    "H11Protocol.pause_writing": "17a8fd215d96",
    "H11Protocol.resume_writing": "7844bbaa8cce",
    "H11Protocol.send_400_response": "56937b748fc5",
    "Server.__init__": "c150b55284f7",
    "Server.capture_signals": "e1bbcd4770d1",
    "Server.handle_exit": "553276efa26e",
    "Server.on_tick": "60ea49b06ccf",
    "Server.shutdown": "9b33c5056299",
    "Server.startup": "2aa1d70a244b",
    "WebSocketsSansIOProtocol.__init__": "631dcd744eab",
    "WebSocketsSansIOProtocol.connection_lost": "dd116afc4d80",
    "WebSocketsSansIOProtocol.connection_made": "f533ec93747c",
    "WebSocketsSansIOProtocol.data_received": "c89d394077d8",
    "WebSocketsSansIOProtocol.handle_bytes": "2b22b21bf8fe",
    "WebSocketsSansIOProtocol.handle_close": "62fd412b1f5b",
    "WebSocketsSansIOProtocol.handle_cont": "d96fe1479da6",
    "WebSocketsSansIOProtocol.handle_ping": "41bcf345d372",
    "WebSocketsSansIOProtocol.handle_pong": "b20c68cc7e4f",
    "WebSocketsSansIOProtocol.handle_text": "6ae523180cf0",
    "WebSocketsSansIOProtocol.keepalive_timeout": "8e1ceb6ec446",
    "WebSocketsSansIOProtocol.receive": "1dc0e7153900",
    "WebSocketsSansIOProtocol.resume_writing": "ef79384e5fff",
    "WebSocketsSansIOProtocol.send": "d4919ed760ce",
    "WebSocketsSansIOProtocol.send_receive_event_to_app": "a2b10de91477",
    "WebSocketsSansIOProtocol.shutdown": "e8ace796ada6",
}


# Methods that stay: ours do their work for whole messages, or have them do it.
KEPT = ("handle_bytes", "handle_text", "send_receive_event_to_app")


def relied_on() -> Iterator[tuple[str, type, str]]:
    """The methods of uvicorn's classes that ours rest on: a name, our class, and the source of uvicorn's method."""
    for ours, theirs in (
        (DecisiveSockets, WebSocketsSansIOProtocol),
        (TimedRequests, H11Protocol),
        (DrainingServer, Server),
        (WorkerServer, Server),
    ):
        for name in sorted(vars(ours).keys() & vars(theirs).keys()):
            if inspect.isfunction(vars(theirs)[name]):
                yield f"{theirs.__name__}.{name}", ours, source_of(theirs, name)
    for name in KEPT:
        yield f"WebSocketsSansIOProtocol.{name}", DecisiveSockets, source_of(WebSocketsSansIOProtocol, name)


def source_of(theirs: type, name: str) -> str:
    """A method's source in the file of its class: other libraries put methods of their own in its place."""
    lines, tree = parsed(theirs)
    method = next(node for node in tree.body if getattr(node, "name", None) == name)
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    first = min([method.lineno, *(decorator.lineno for decorator in method.decorator_list)])
    return "".join(lines[first - 1 : method.end_lineno])


@functools.cache
def parsed(theirs: type) -> tuple[list[str], ast.ClassDef]:
    lines, _ = inspect.getsourcelines(theirs)
    (tree,) = ast.parse("".join(lines)).body
    assert isinstance(tree, ast.ClassDef)
    return lines, tree


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    ("name", "ours", "source"), list(relied_on()), ids=lambda value: value if value in KNOWN else ""
)
def test_a_method_has_not_changed(name: str, ours: type, source: str) -> None:
    found = digest(source)
    assert KNOWN.get(name) == found, (
        f"uvicorn {version('uvicorn')} has another {name} than {ours.__module__}.{ours.__name__} was written for. Read "
        f"both, adapt ours, put the digest {found!r} here, and raise the upper bound of uvicorn in pyproject.toml."
    )


def test_every_method_is_still_there() -> None:
    assert {name for name, _, _ in relied_on()} == KNOWN.keys()


def test_no_version_is_allowed_that_these_tests_have_not_seen() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    (requirement,) = [found for text in project["dependencies"] if (found := Requirement(text)).name == "uvicorn"]
    major, minor = map(int, version("uvicorn").split(".")[:2])
    assert version("uvicorn") in requirement.specifier
    assert f"{major}.{minor + 1}.0" not in requirement.specifier
