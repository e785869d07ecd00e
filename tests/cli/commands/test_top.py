"""``openenv top``, with and without a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import RunningServer, ServerProcess, Wire

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A running ``openenv top`` and the terminal that it draws on."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._seen = ""

    def wait_for(self, text: str) -> None:
        """Wait until something shows that did not before."""
        deadline = time.monotonic() + 60
        while text not in self._seen:
            assert time.monotonic() < deadline, f"{text!r} never showed:\n{self._seen}"
            if select.select([self._descriptor], [], [], 1)[0]:
                with suppress(OSError):  # it has ended
                    self._seen += _ESCAPES.sub("", os.read(self._descriptor, 65536).decode(errors="replace"))
        self._seen = self._seen[self._seen.index(text) + len(text) :]

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)


@contextmanager
def top(*arguments: object) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "openenv.cli", "top", *map(str, arguments), "--interval", "0.1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    try:
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
    finally:
        os.close(ours)


def test_once(openenv: Any, serve: Serve) -> None:
    server = serve(env_name="counting")
    with server.v1() as wire:
        name = wire.open()
        wire.do("reset", name)
        wire.do("step", name, amount=3)
        shown = openenv("top", server.url, "--once")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(rf"counting +{server.url} +up \S+", shown.stdout)
    assert "1 of 8" in shown.stdout
    assert re.search(rf"{name[:13]} +v1 +playing +1 +1 +1 +3 ", shown.stdout)
    assert "\x1b" not in shown.stdout


def test_off_a_terminal_it_prints_once(openenv_here: Any, counter_server: RunningServer) -> None:
    shown = openenv_here("top", counter_server.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "0 of 64" in shown.stdout
    assert "No session is open." in shown.stdout


@pytest.mark.parametrize(
    ("url", "message"),
    [("http://127.0.0.1:1", "No answer from http://127.0.0.1:1"), ("ftp://x", "Expected a server's address")],
)
def test_no_server(openenv_here: Any, url: str, message: str) -> None:
    ended = openenv_here("top", url, "--once")
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: ")
    assert message in ended.stderr


def test_the_token_of_the_server(openenv_here: Any, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(token="the-right-token-of-24-characters")
    monkeypatch.setenv("OPENENV_TOKEN", "the-right-token-of-24-characters")
    assert openenv_here("top", server.url, "--once").returncode == 0
    monkeypatch.setenv("OPENENV_TOKEN", "another-token-of-the-same-length")
    refused = openenv_here("top", server.url, "--once")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "UNAUTHORIZED" in refused.stderr
    monkeypatch.setenv("OPENENV_TOKEN", "no\theader-value")
    impossible = openenv_here("top", server.url, "--once")
    assert impossible.returncode == 1
    assert impossible.stderr.startswith("Error: Expected the token")
    assert "header-value" not in refused.stderr + impossible.stderr
    assert "another-token" not in refused.stderr


class TestTerminal:
    def test_it_follows_what_happens_until_q(self, serve: Serve) -> None:
        server = serve()
        with top(server.url) as terminal:
            terminal.wait_for("No session is open.")
            with server.v1() as wire:
                name = wire.open()
                terminal.wait_for(name[:13])
                wire.do("reset", name)
                terminal.wait_for("playing")
            terminal.wait_for("No session is open.")
            terminal.type(b"q")
            assert terminal.process.wait(60) == 0

    def test_ctrl_c_ends_it_with_130(self, counter_server: RunningServer) -> None:
        with top(counter_server.url) as terminal:
            terminal.wait_for("0 of 64")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.process.wait(60) == 130

    def test_a_server_that_goes_and_comes_back(self) -> None:
        with ServerProcess("counter_server.py", "8") as server, top(server.url) as terminal:
            terminal.wait_for("0 of 8")
            server.kill()
            terminal.wait_for("No answer from")
            with ServerProcess("counter_server.py", "9", str(server.port)):
                terminal.wait_for("0 of 9")
            terminal.wait_for("No answer from")
            terminal.type(b"q")
            assert terminal.process.wait(60) == 0

    def test_a_worker_that_is_held_up_is_told_until_it_goes_on(self) -> None:
        with (
            ServerProcess("worker_server.py", "2", "64", "5") as server,
            Wire(server.url.replace("http", "ws") + "/ws") as wire,
            top(server.url) as terminal,
        ):
            process = wire.reset()["data"]["observation"]["process"]
            terminal.wait_for("2 of 2 workers")
            os.kill(process, signal.SIGSTOP)
            terminal.wait_for(" does not answer; what is shown is that of the others.")
            terminal.wait_for("1 of 2 workers")
            os.kill(process, signal.SIGCONT)
            terminal.wait_for("2 of 2 workers")
