"""No process of a sandbox outlives its server, whatever runs in it and by whatever signal the server ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from tests.support.servers import eventually
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

# What a command can do against its end: ignore signals, leave its session, start others for ever.
COMMANDS = (
    "trap '' TERM INT HUP; sleep 100",
    "setsid sleep 100 & disown; while :; do :; done",
    "while :; do sleep 100 & sleep 0.05; done",
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(
    ("ending", "isolation"),
    [(signal.SIGKILL, "none"), (signal.SIGKILL, "process"), (signal.SIGTERM, "none"), (signal.SIGHUP, "none")],
)
def test_no_sandbox_outlives_its_server(ending: signal.Signals, isolation: str, listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    options = ["--fd", str(listener.fileno()), "--isolation", isolation]
    server = subprocess.Popen(
        [sys.executable, "-m", "openenv.cli", "serve", "terminal", *options],
        pass_fds=[listener.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with killing(server):
        players = [threading.Thread(target=_run, args=(url, command), daemon=True) for command in COMMANDS]
        for player in players:
            player.start()
        process = psutil.Process(server.pid)
        eventually(lambda: _sleeping(process) == len(COMMANDS), "every command to be running")
        started = process.children(recursive=True)
        os.kill(server.pid, ending)
        server.wait(60)
        _, alive = psutil.wait_procs(started, timeout=60)
        assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
        for player in players:
            player.join(60)


@contextmanager
def killing(server: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill a server that a failed test leaves behind."""
    try:
        yield
    finally:
        server.kill()
        server.wait()


def _run(url: str, command: str) -> None:
    """Run a command in a session of its own, until the server ends. A socket without a client does not wait for it."""
    with suppress(ConnectionClosed), connect(url.replace("http", "ws") + "/ws", proxy=None, open_timeout=60) as wire:
        for message in ({"type": "reset"}, {"type": "step", "data": {"type": "run", "command": command}}):
            wire.send(json.dumps(message))
            wire.recv()


def _sleeping(server: psutil.Process) -> int:
    """Count the sandboxes of a server in which a ``sleep`` runs; psutil's list may have processes that have ended."""
    found = set()
    with suppress(psutil.NoSuchProcess):
        for process in server.children(recursive=True):
            if process.name() == "sleep":
                found.add(max(parent.pid for parent in process.parents() if parent.name() == "bwrap"))
    return len(found)
