"""The exchanges on the pages about the wires are what an echo server says, word for word."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.environments.pictured import FILE, Gallery, Look, View
from tests.support.servers import RunningServer
from tests.support.snippets import blocks_of
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.providers.local_process import LocalProcessProvider

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXCHANGE = re.compile(r"^> (?P<request>.*)\n< (?P<answer>.*)$", re.MULTILINE)


def matches(shown: str, answer: str) -> bool:
    """Whether an answer is the one that the page shows, where ``...`` stands for anything."""
    return re.fullmatch(".*".join(re.escape(part) for part in shown.split("...")), answer) is not None


def receive_as(shown: str, socket: ClientConnection) -> str:
    """Receive as many messages as are shown; the server may put them into several frames."""
    count = len(re.findall(r'"type":"(?:opened|attached|forked|observation|state|picture|mcp|closed|error)"', shown))
    messages: list[Any] = []
    while len(messages) < count:
        received = json.loads(socket.recv(timeout=60))
        messages += received if isinstance(received, list) else [received]
    return json.dumps(messages if shown.startswith("[") else messages[0], separators=(",", ":"), ensure_ascii=False)


def exchanges(page: str) -> Iterator[tuple[str, str]]:
    for block in blocks_of(DOCS / page):
        if block.language == "text":
            found = ((match["request"], match["answer"]) for match in EXCHANGE.finditer(block.text))
            # Columns are for a socket with another handshake, whose other answers have columns too.
            yield from ((request, answer) for request, answer in found if '"ids":' not in request)


def with_sessions(text: str, names: dict[str, str]) -> str:
    for name, session in names.items():
        text = text.replace(name, session)
    return text


@pytest.mark.parametrize(
    ("page", "subprotocols", "count"), [("wire.md", None, 6), ("wire-v1.md", [Subprotocol("openenv.v1")], 13)]
)
def test_the_echo_server_answers_as_the_page_says(
    page: str, subprotocols: list[Subprotocol] | None, count: int
) -> None:
    shown_exchanges = list(exchanges(page))
    assert len(shown_exchanges) == count

    with LocalProcessProvider("echo") as provider:
        provider.wait_for_ready()
        url = provider.base_url.replace("http:", "ws:") + "/ws"
        names: dict[str, str] = {}
        with connect(url, subprotocols=subprotocols, proxy=None) as socket:
            for request, shown in shown_exchanges:
                socket.send(with_sessions(request, names))
                answer = receive_as(shown, socket)
                shown_here = with_sessions(shown, names)
                assert matches(shown_here, answer), f"{request}\nshown:    {shown_here}\nanswered: {answer}"
                if '"opened"' in answer:
                    names = dict(zip(("FIRST", "SECOND"), re.findall(r'"session":"([^"]+)"', answer), strict=True))
                    names["TOKEN"] = re.findall(r'"token":"([^"]+)"', answer)[0]


def test_the_pages_reader_of_arrays_reads_them() -> None:
    (block,) = (block for block in blocks_of(DOCS / "wire-v1.md") if block.language == "python")
    found: dict[str, Any] = {}
    with RunningServer(create_fastapi_app(Gallery, Look, View, max_concurrent_envs=1)) as server:
        exec(block.text.replace("localhost:8000", f"127.0.0.1:{server.port}"), found)
    shown = found["observation"]
    assert (shown["pixels"].shape, shown["pixels"].dtype) == ((2, 4, 3), np.uint8)
    assert np.array_equal(shown["depth"], np.array([0, np.nan, np.inf], np.float32), equal_nan=True)
    assert shown["file"] == FILE
