"""The fork server: how it ends with its server, and which programs it can import."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.processes import wait_until_gone
from tests.support.servers import ServerProcess, Wire, eventually

pytestmark = pytest.mark.timeout(180)


class Played:
    """A server in a process of its own, with a session that plays."""

    def __init__(self, closed: Path) -> None:
        self.closed = closed
        self.server = ServerProcess("isolated_server.py", str(closed))
        self.wires: list[Wire] = []
        self.pid, self.fork_server = self.open().reset()["data"]["observation"]["value"]

    def open(self) -> Wire:
        self.wires.append(Wire(self.server.url.replace("http", "ws") + "/ws"))
        return self.wires[-1]

    def hang(self) -> int:
        """Have another session hang in C. Returns its process."""
        wire = self.open()
        pid: int = wire.reset()["data"]["observation"]["value"][0]
        wire.send({"type": "step", "data": {"what": "hang"}})
        self.server.wait_for_lines(["hanging"])
        return pid

    def wait_until_closed(self) -> None:
        eventually(
            lambda: self.closed.exists() and self.closed.read_text() == f"{self.pid}\n", "its environment closed"
        )


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    played = Played(tmp_path / "closed")
    with played.server:
        yield played
        for wire in played.wires:
            wire.close()


def test_a_server_that_is_killed_leaves_no_process_and_its_environments_are_closed(played: Played) -> None:
    hanging = played.hang()
    played.server.kill()
    played.wait_until_closed()
    wait_until_gone(played.pid)
    wait_until_gone(hanging, played.fork_server, timeout_s=60)


def test_a_server_that_is_told_to_end_does_so_in_order(played: Played) -> None:
    played.server.process.send_signal(signal.SIGTERM)
    played.server.process.wait(60)
    wait_until_gone(played.pid, played.fork_server)
    played.wait_until_closed()


UNGUARDED = """
from openenv import serve
from tests.support.environments.isolated import Isolated

class Mine(Isolated):
    pass

serve(Mine, port=0, isolation="process")
"""


def test_a_program_that_serves_whenever_it_is_imported_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED)
    ended = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(Path.cwd())}
    )
    assert ended.returncode != 0
    assert "could not import them: ConfigurationError: The program starts a server whenever it is" in ended.stderr
    assert '`if __name__ == "__main__":`' in ended.stderr


STARTING = """
import os, re, threading, time
from openenv import serve
from tests.support.environments.isolated import Isolated

class Mine(Isolated):
    pass

if __name__ == "__main__":
    serve(Mine, port=0, isolation="process", workers={workers})
else:
    print(os.getpid(), flush=True)
    {module}
"""


@pytest.mark.parametrize(
    ("workers", "module"),
    [
        (1, "re.match(r'(a+)+$', 'a' * 60 + 'b')"),
        (2, "re.match(r'(a+)+$', 'a' * 60 + 'b')"),
        (1, "threading.Thread(target=time.sleep, args=(600,)).start()"),
    ],
    ids=["hang", "hang of a worker", "thread"],
)
def test_a_server_that_is_killed_as_it_starts_leaves_no_process(workers: int, module: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STARTING.format(workers=workers, module=module))
    command, environment = [sys.executable, str(program)], {"PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("Serving Mine at ")
        importing = int(server.stdout.readline())
        server.kill()
        wait_until_gone(importing)
