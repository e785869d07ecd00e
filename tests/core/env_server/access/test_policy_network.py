"""A server on an address that other machines reach, and a client on another machine."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.servers import PROGRAMS
from tests.support.services.namespaces import OtherMachine, other_machine

Came = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def machine() -> Iterator[OtherMachine]:
    """Another machine."""
    with other_machine() as machine:
        yield machine


class Server:
    """A server of this machine, for all that reach it.

    Attributes:
        port: Its port.
        token: The token that it has printed.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed: list[str] = []
        self.port = 0
        self.token = ""

    def read_until(self, pattern: str) -> str:
        """Read what it prints up to a line that has something; returns that."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found[1]
        raise AssertionError(f"it ended without {pattern}: {self.printed}")

    def all_printed(self) -> str:
        """End it, and return all that it has printed."""
        self.process.terminate()
        assert self.process.stdout is not None
        return "".join(self.printed) + self.process.stdout.read()


@contextmanager
def running(*command: str, **variables: str) -> Iterator[Server]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENENV_")}
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**environment, "PYTHONUNBUFFERED": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield Server(process)
        finally:
            process.kill()


@contextmanager
def serving(*options: str, **variables: str) -> Iterator[Server]:
    """Run ``openenv serve`` on all addresses."""
    with running("openenv.cli", "serve", "echo", "--host", "0.0.0.0", "--port", "0", *options, **variables) as server:
        server.port = int(server.read_until(r"^Serving echo at https?://127\.0\.0\.1:(\d+)$"))
        yield server


def ask(machine: OtherMachine | None, server: Server, *requests: tuple[str, str | None]) -> list[Came]:
    """Send requests from another machine, or from this one: a path, and a token, if any."""
    host = "127.0.0.1" if machine is None else machine.address_of_ours
    listed = [
        {
            "url": f"{'ws' if path == '/ws' else 'http'}://{host}:{server.port}{path}",
            "headers": {} if token is None else {"Authorization": f"Bearer {token}"},
            **({"method": "GET"} if path in ("/schema", "/health", "/ready") else {}),
        }
        for path, token in requests
    ]
    program, stdin = str(PROGRAMS / "network_client.py"), json.dumps(listed)
    if machine is None:
        ended = subprocess.run([sys.executable, program], input=stdin, stdout=subprocess.PIPE, text=True, check=True)
        printed = ended.stdout
    else:
        printed = machine.run_python(program, stdin=stdin)
    return [(status, json.loads(body)) for status, body in json.loads(printed)]


PATHS = ("/schema", "/reset", "/ws")


def test_peers_from_elsewhere_need_the_token_that_serve_prints(machine: OtherMachine) -> None:
    with serving("--log-level", "debug") as server:
        server.token = server.read_until(r"^  export OPENENV_TOKEN=(\S{32,})$")
        requests = [(path, token) for path in PATHS for token in (None, "wrong", server.token)]
        answers = dict(zip(requests, ask(machine, server, *requests), strict=True))
        for path in PATHS:
            status, body = answers[path, None]
            assert (status, body["code"]) == (401, "UNAUTHORIZED")
            assert "got none" in body["detail"]
            status, body = answers[path, "wrong"]
            assert (status, body["code"]) == (401, "UNAUTHORIZED")
            assert "got another one" in body["detail"]
        assert [answers[path, server.token][0] for path in PATHS] == [200, 200, 101]
        assert answers["/ws", server.token][1]["type"] == "observation"

        here = ask(None, server, ("/schema", None), ("/ws", None), ("/ws", server.token), ("/ws", "wrong"))
        assert [status for status, _ in here] == [200, 101, 101, 401]

        up = ask(machine, server, ("/health", None), ("/ready", "wrong"))
        assert up == [(200, {"status": "healthy"}), (200, {"status": "ready"})]
        # Handshakes are logged with their headers at this level, and the token is told once all the same.
        printed = server.all_printed()
    assert "GET /ws" in printed
    assert printed.count(server.token) == 1


def test_with_workers_too(machine: OtherMachine) -> None:
    with serving("--workers", "2", OPENENV_TOKEN="a-token-of-the-user-s") as server:
        server.read_until(r"with the token that (OPENENV_TOKEN) holds here")
        requests = [("/ws", token) for token in (None, "wrong", "a-token-of-the-user-s") for _ in range(3)]
        assert [status for status, _ in ask(machine, server, *requests)] == [401] * 6 + [101] * 3
        assert "a-token-of-the-user-s" not in server.all_printed()


def test_nobody_needs_one_where_that_is_asked_for(machine: OtherMachine) -> None:
    with serving("--auth", "none") as server:
        assert [status for status, _ in ask(machine, server, ("/reset", None), ("/ws", "any"))] == [200, 101]
        printed = server.all_printed()
    assert "no token is needed" in printed
    assert "export" not in printed


def test_a_bare_uvicorn_turns_others_away_and_says_what_to_do(machine: OtherMachine) -> None:
    arguments = ("uvicorn", "echo_env.server.app:app", "--host", "0.0.0.0", "--port", "0")
    with running(*arguments) as server:
        server.port = int(server.read_until(r"Uvicorn running on http://0\.0\.0\.0:(\d+)"))
        for status, body in ask(machine, server, *((path, "any") for path in PATHS)):
            assert status == 401
            assert "Start it with one, as in OPENENV_TOKEN=" in body["detail"]
        assert [status for status, _ in ask(None, server, ("/reset", None), ("/ws", None))] == [200, 101]
    with running(*arguments, OPENENV_TOKEN="from-the-environment") as server:
        server.port = int(server.read_until(r"Uvicorn running on http://0\.0\.0\.0:(\d+)"))
        requests = (("/ws", "from-the-environment"), ("/ws", None))
        assert [status for status, _ in ask(machine, server, *requests)] == [101, 401]
