"""How a server ends: real processes, one or several, and real signals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from tests.support.servers import PROGRAMS, V1Wire, Wire, eventually
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.timeout(180)

PATIENCE_S = 60
# Longer than any test takes: where it is given, the server must not wait so long.
FOREVER_S = 600
SERVICE_RESTART = 1012

IN_ONE_PROCESS_AND_IN_TWO = pytest.mark.parametrize("workers", [1, 2])


class DrainServer:
    """A running ``drain_server.py``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        self._url = f"ws://127.0.0.1:{self.port}/ws"

    def v1(self) -> V1Wire:
        return V1Wire(self._url)

    def wire(self) -> Wire:
        return Wire(self._url)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=PATIENCE_S)

    def post(self, path: str) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=PATIENCE_S)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_until_it_drains(self) -> None:
        eventually(self._drains, "it says that it drains", PATIENCE_S)

    def wait_until_it_ends(self) -> int:
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        """What it has printed to standard error; waits for its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def _drains(self) -> bool:
        try:
            return self.get("/ready").status_code == 503
        except httpx.HTTPError:  # a worker without episodes ended as it was asked
            return False


@contextmanager
def serving(workers: int = 1, sessions: int = 8, drain_s: float = FOREVER_S, **settings: Any) -> Iterator[DrainServer]:
    command = [sys.executable, PROGRAMS / "drain_server.py", workers, sessions, drain_s]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings
    ) as process:
        try:
            yield DrainServer(process)
        finally:
            process.kill()


def playing(wire: V1Wire) -> str:
    """Open a session and begin an episode."""
    session = wire.open()
    assert wire.do("reset", session)["type"] == "observation"
    return session


def close_code(wire: Wire) -> int | None:
    """Read until the other side closes the socket, and say how."""
    try:
        while True:
            wire.socket.recv(timeout=PATIENCE_S)
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


@IN_ONE_PROCESS_AND_IN_TWO
def test_episodes_end_before_the_server_does(workers: int) -> None:
    with serving(workers) as server, server.v1() as first, server.v1() as second:
        session = playing(first)
        late = playing(second)
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        assert second.do("step", late, amount=10)["data"]["done"]
        for amount in (4, 4):
            assert not first.do("step", session, amount=amount)["data"]["done"]
        assert first.do("step", session, amount=4)["data"]["done"]
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert close_code(first) == SERVICE_RESTART
        assert close_code(second) == SERVICE_RESTART
        assert "under way, at most 600 s" in server.log()


@IN_ONE_PROCESS_AND_IN_TWO
def test_meanwhile_it_is_there_but_takes_no_sessions(workers: int) -> None:
    with serving(workers) as server, server.v1() as wire:
        assert server.get("/ready").json() == {"status": "ready"}
        session = playing(wire)
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        if workers > 1:  # the other worker has nothing to wait for
            eventually(lambda: len(children(server.process.pid)) == 1, "the other worker has ended", PATIENCE_S)
        assert server.get("/ready").json() == {"status": "draining"}
        assert server.get("/health").json() == {"status": "healthy"}
        refused = wire.ask({"type": "open", "id": 9, "data": {"wait_s": 60}})["data"]
        assert (refused["code"], refused["draining"]) == ("CAPACITY_REACHED", True)
        with server.wire() as legacy:
            told = legacy.receive()["data"]
            assert (told["code"], told["draining"]) == ("CAPACITY_REACHED", True)
        over_http = server.post("/reset")
        assert (over_http.status_code, over_http.json()["draining"]) == (503, True)
        assert wire.do("step", session, amount=10)["data"]["done"]
        assert server.wait_until_it_ends() == -signal.SIGTERM


def children(process: int) -> list[str]:
    with open(f"/proc/{process}/task/{process}/children") as file:  # noqa: PTH123
        return file.read().split()


def test_a_client_may_come_back_to_its_episode() -> None:
    with serving() as server:
        with server.v1() as wire:
            session, token = wire.open_with_token()
            wire.do("reset", session)
            wire.cut()
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        with server.v1() as wire:
            assert wire.attach(session, token)["type"] == "attached"
            assert wire.do("step", session, amount=10)["data"]["done"]
            assert server.wait_until_it_ends() == -signal.SIGTERM


@IN_ONE_PROCESS_AND_IN_TWO
def test_an_episode_that_does_not_end_is_not_waited_for_beyond_the_time(workers: int) -> None:
    with serving(workers, drain_s=0.5) as server, server.v1() as wire:
        playing(wire)
        server.tell(signal.SIGTERM)
        assert close_code(wire) == SERVICE_RESTART
        assert server.wait_until_it_ends() == -signal.SIGTERM
        log = server.log()
        assert "draining: 1 episode under way, at most 0.5 s" in log
        assert "drained for 0.5 s: 1 episode still under way" in log
        assert "Traceback" not in log


@pytest.mark.parametrize(("workers", "second"), [(1, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGTERM)])
def test_a_second_signal_ends_it_at_once(workers: int, second: signal.Signals) -> None:
    with serving(workers) as server, server.v1() as wire:
        playing(wire)
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        server.tell(second)
        assert server.wait_until_it_ends() in (-signal.SIGTERM, -signal.SIGINT, 0)


def test_ctrl_c_does_not_wait() -> None:
    with serving() as server, server.v1() as wire:
        playing(wire)
        server.tell(signal.SIGINT)
        assert close_code(wire) == SERVICE_RESTART
        server.wait_until_it_ends()
        assert "draining" not in server.log()


def test_without_a_time_to_drain_it_ends_at_once() -> None:
    with serving(2, drain_s=0) as server, server.v1() as wire:
        playing(wire)
        server.tell(signal.SIGTERM)
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert "drain" not in server.log()


def test_only_episodes_that_had_begun_are_waited_for() -> None:
    with serving() as server, server.v1() as wire, server.wire() as legacy:
        session, done, new = playing(wire), playing(wire), wire.open()
        assert wire.do("step", done, amount=10)["data"]["done"]
        httpx.post(f"http://127.0.0.1:{server.port}/reset", trust_env=False)  # nobody claims it
        legacy.state()
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        assert wire.do("reset", new)["type"] == wire.do("reset", done)["type"] == "observation"
        wire.send([wire.message("step", session, amount=10), wire.message("reset", session)])
        assert [answer["type"] for answer in wire.receive_many(2)] == ["observation", "observation"]
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert "draining: 1 episode under way" in server.log()


def test_a_session_that_ends_without_its_episode_is_not_waited_for() -> None:
    with serving() as server, server.v1() as wire, server.wire() as legacy:
        session = playing(wire)
        legacy.reset()
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        legacy.cut()
        wire.do("close", session)
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert "draining: 2 episodes under way" in server.log()


def test_those_who_wait_in_line_are_told() -> None:
    with serving(sessions=1) as server, server.v1() as wire:
        playing(wire)
        wire.send({"type": "open", "id": 2, "data": {"wait_s": 60}})
        server.tell(signal.SIGTERM)
        assert wire.receive()["data"]["draining"] is True


def test_a_server_without_episodes_ends_at_once_and_quietly() -> None:
    with serving() as server, server.v1() as wire:
        wire.open()
        server.tell(signal.SIGTERM)
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert server.log() == ""


def all_at_once(server: DrainServer) -> None:
    os.killpg(server.process.pid, signal.SIGTERM)


def workers_first(server: DrainServer) -> None:
    for worker in children(server.process.pid):
        os.kill(int(worker), signal.SIGTERM)
    server.wait_until_it_drains()
    server.tell(signal.SIGTERM)


def workers_last(server: DrainServer) -> None:
    workers = children(server.process.pid)
    server.tell(signal.SIGTERM)
    server.wait_until_it_drains()
    for worker in workers:
        os.kill(int(worker), signal.SIGTERM)


@pytest.mark.parametrize("end", [all_at_once, workers_first, workers_last])
def test_workers_that_get_the_signal_too_drain_as_well(end: Callable[[DrainServer], None]) -> None:
    """As when an init system ends a whole group of processes, in whatever order."""
    with serving(2, start_new_session=True) as server, server.v1() as first, server.v1() as second:
        sessions = {wire: playing(wire) for wire in (first, second)}
        assert {session.partition(".")[0] for session in sessions.values()} == {"0", "1"}
        end(server)
        server.wait_until_it_drains()
        time.sleep(0.3)  # three ticks of a worker: time enough to end, for one that would
        for wire, session in sessions.items():
            assert wire.do("step", session, amount=10)["data"]["done"]
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert "another worker" not in server.log()


def test_a_worker_that_is_being_started_holds_up_no_end() -> None:
    with serving(2, start_new_session=True) as server, server.v1() as wire:
        session = playing(wire)
        busy, idle = children(server.process.pid) if session[0] == "0" else children(server.process.pid)[::-1]
        os.kill(int(idle), signal.SIGKILL)
        eventually(lambda: len(set(children(server.process.pid)) - {busy, idle}) == 1, "another one is being started")
        all_at_once(server)
        server.wait_until_it_drains()
        assert wire.do("step", session, amount=10)["data"]["done"]
        assert server.wait_until_it_ends() == -signal.SIGTERM
        assert "Traceback" not in server.log()


def test_a_worker_that_ends_takes_no_further_clients() -> None:
    """What it was handed while it closes its environments would be lost."""
    with serving(2) as server, ExitStack() as opened:
        wires = [opened.enter_context(server.v1()) for _ in range(8)]
        ending, *_ = of_ending = [(wire, session) for wire in wires if (session := playing(wire)).startswith("0.")]
        assert len(of_ending) == 4
        server.tell(signal.SIGTERM)
        server.wait_until_it_drains()
        for wire, session in of_ending[1:]:
            wire.do("close", session)
            wire.close()
        # From now on the supervisor would hand it every client, since it has the fewest.
        ending[0].do("step", ending[1], amount=10)
        assert close_code(ending[0]) == SERVICE_RESTART
        for _ in range(20):
            assert server.get("/health").status_code == 200


def test_a_place_that_another_worker_gives_back_goes_to_who_waits_for_it() -> None:
    with serving(2, sessions=1, drain_s=0) as server, server.v1() as holder, server.v1() as waiter:
        held = holder.open()
        waiter.send({"type": "open", "id": 1, "data": {"wait_s": 60}})
        assert holder.do("state", held)["type"] == "state"
        holder.do("close", held)
        opened = waiter.receive()
        assert opened["type"] == "opened"
        assert opened["session"].partition(".")[0] != held.partition(".")[0], "they are in different workers"
