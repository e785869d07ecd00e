"""The exchanges on the pages about the wires are what an echo server says, word for word."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.snippets import blocks_of
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

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
            yield from ((match["request"], match["answer"]) for match in EXCHANGE.finditer(block.text))


def with_sessions(text: str, names: dict[str, str]) -> str:
    for name, session in names.items():
        text = text.replace(name, session)
    return text


@pytest.mark.parametrize(
    ("page", "subprotocols", "count"), [("wire.md", None, 6), ("wire-v1.md", [Subprotocol("openenv.v1")], 12)]
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
