"""The exchanges on the page about the wire are what an echo server says, word for word."""

import re
from pathlib import Path

from tests.docs.snippets import blocks_of
from tests.servers import Wire

from openenv.core.containers.local_process import LocalProcessProvider

PAGE = Path(__file__).resolve().parents[2] / "docs" / "wire.md"
EXCHANGE = re.compile(r"^> (?P<request>.*)\n< (?P<answer>.*)$", re.MULTILINE)


def matches(shown: str, answer: str) -> bool:
    """Whether an answer is the one that the page shows, where ``...`` stands for anything."""
    return re.fullmatch(".*".join(re.escape(part) for part in shown.split("...")), answer) is not None


def test_the_echo_server_answers_as_the_page_says() -> None:
    exchanges = [
        match.groups()
        for block in blocks_of(PAGE)
        if block.language == "text"
        for match in EXCHANGE.finditer(block.text)
    ]
    assert len(exchanges) == 6

    with LocalProcessProvider("echo") as provider:
        provider.wait_for_ready()
        with Wire(provider.base_url.replace("http:", "ws:") + "/ws") as wire:
            for request, shown in exchanges:
                wire.send(request)
                answer = wire.socket.recv(timeout=5)
                assert isinstance(answer, str)
                assert matches(shown, answer), f"{request}\nshown:    {shown}\nanswered: {answer}"
