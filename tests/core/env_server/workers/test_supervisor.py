"""Real servers with several workers: balance, slots, sessions that are elsewhere, deaths and ends."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.environment_folders import write_files
from tests.support.servers import PROGRAMS, Wire, eventually
from websockets.exceptions import ConnectionClosed

from openenv.core.env_server.app import run_workers
from openenv.core.exceptions import ConfigurationError

pytestmark = pytest.mark.timeout(180)

SESSION = "X-OpenEnv-Session"
# Seconds in which anything here is over, on a slow machine.
PATIENCE_S = 60
MAX_SESSIONS = 64


class WorkerServer:
    """A running ``worker_server.py``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self.workers = children(process.pid)

    def wire(self, path: str = "/ws") -> Wire:
        return Wire(f"ws://127.0.0.1:{self.port}{path}")

    def http(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=PATIENCE_S, **settings)

    def slots_in_use(self) -> int:
        """Number of slots in use, as the server reports it."""
        with self.http() as client:
            return int(client.get("/capacity").json()["active_sessions"])

    def wait_for_a_step_that_waits(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "waiting\n"

    def log(self) -> str:
        """What it has printed to standard error; waits for its end and that of its workers."""
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def serving(
    workers: int, sessions: int = MAX_SESSIONS, grace_s: float = 10, broken: Path | str = "", **settings: Any
) -> Iterator[WorkerServer]:
    """Serve until the block ends; nothing may be left then."""
    command = [sys.executable, PROGRAMS / "worker_server.py", workers, sessions, grace_s, broken]
    with subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings
    ) as process:
        server = None
        try:
            server = WorkerServer(process)
            yield server
        finally:
            process.kill()
    eventually(lambda: not any(map(alive, server.workers)), "the workers have ended", PATIENCE_S)


@pytest.fixture(scope="module")
def trio() -> Iterator[WorkerServer]:
    """Three workers, for tests that end no process."""
    with serving(3) as server:
        yield server


def children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


def alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def first_answer(wire: Wire) -> dict[str, Any]:
    """What a reset is answered, or why no session could be opened."""
    with suppress(ConnectionClosed):
        wire.send({"type": "reset"})
    return wire.receive(PATIENCE_S)


def process_of(answer: dict[str, Any]) -> int:
    return int(answer["data"]["observation"]["process"])


class TestBalance:
    def test_every_worker_gets_as_many_sockets(self, trio: WorkerServer) -> None:
        with ExitStack() as opened:
            wires = [opened.enter_context(trio.wire()) for _ in range(30)]
            counts = Counter(process_of(wire.reset()) for wire in wires)
        assert counts == dict.fromkeys(trio.workers, 10)

    def test_clients_that_have_gone_are_noticed(self, trio: WorkerServer) -> None:
        with ExitStack() as opened:
            wires = {opened.enter_context(trio.wire()): 0 for _ in range(30)}
            for wire in wires:
                wires[wire] = process_of(wire.reset())
            for wire in [wire for wire, process in wires.items() if process == trio.workers[0]]:
                del wires[wire]
                wire.cut()
            counts = Counter(wires.values())

            def even_again() -> bool:
                counts[process_of(opened.enter_context(trio.wire()).reset())] += 1
                return max(counts.values()) == counts[trio.workers[0]]

            eventually(even_again, "the worker that lost its clients has as many again", PATIENCE_S)
        eventually(lambda: trio.slots_in_use() == 0, "all slots were released", PATIENCE_S)

    def test_clients_know_how_many_workers_there_are(self, trio: WorkerServer) -> None:
        with trio.wire() as wire:
            assert wire.socket.response is not None
            assert wire.socket.response.headers["X-OpenEnv-Workers"] == "3"


def test_slots_are_counted_over_all_workers(trio: WorkerServer) -> None:
    clients, at_once = MAX_SESSIONS + 20, 20
    for _ in range(2):
        with ExitStack() as opened, ThreadPoolExecutor(at_once) as pool:

            def open_one(_: int, opened: ExitStack = opened) -> dict[str, Any]:
                wire = trio.wire()
                opened.callback(wire.close)
                return first_answer(wire)

            answers = list(pool.map(open_one, range(clients)))
            refused = [answer["data"] for answer in answers if answer["type"] == "error"]
            assert len(refused) == clients - MAX_SESSIONS
            for error in refused:
                assert error["code"] == "CAPACITY_REACHED"
                assert (error["active_sessions"], error["max_sessions"]) == (MAX_SESSIONS, MAX_SESSIONS)
            assert trio.slots_in_use() == MAX_SESSIONS
        eventually(lambda: trio.slots_in_use() == 0, "all slots were released", PATIENCE_S)


class TestSessionsElsewhere:
    """Three connections are held open, one to each worker; the session is in one of them."""

    @pytest.fixture
    def clients(self, trio: WorkerServer) -> Iterator[list[httpx.Client]]:
        # Another test's clients may not have been noticed to have gone.
        with ExitStack() as opened:
            clients = []
            for _ in range(6):
                clients.append(opened.enter_context(trio.http()))
                clients[-1].get("/health")
            yield clients

    def test_an_episode_over_http_goes_on_at_every_worker(self, clients: list[httpx.Client]) -> None:
        reset = clients[0].post("/reset")
        headers = {SESSION: reset.headers[SESSION]}
        for number, client in enumerate(clients[1:], 1):
            step = client.post("/step", json={"action": {}}, headers=headers).json()
            assert step["observation"] == {**reset.json()["observation"], "total": number}
            assert client.get("/state", headers=headers).json()["step_count"] == number
        assert clients[1].post("/reset", headers=headers).json() == reset.json()
        assert clients[2].delete("/session", headers=headers).status_code == 204
        assert {client.get("/state", headers=headers).status_code for client in clients} == {404}

    def test_a_cookie_does_as_well_and_may_be_stale_for_a_reset(self, clients: list[httpx.Client]) -> None:
        reset = clients[0].post("/reset")
        for client in clients[1:]:
            client.cookies = clients[0].cookies
        assert [client.post("/step", json={"action": {}}).json()["observation"]["total"] for client in clients] == [
            *range(1, 7)
        ]
        clients[1].delete("/session", headers={SESSION: reset.headers[SESSION]})
        assert clients[2].get("/state").status_code == 404
        again = clients[3].post("/reset")
        assert again.status_code == 200
        assert again.headers[SESSION] != reset.headers[SESSION]
        clients[4].delete("/session", headers={SESSION: again.headers[SESSION]})

    def test_errors_and_limits_are_those_of_the_worker_that_answers(self, clients: list[httpx.Client]) -> None:
        headers = {SESSION: clients[0].post("/reset").headers[SESSION]}
        for client in clients:
            assert client.post("/step", json={"action": {"amount": "x"}}, headers=headers).status_code == 422
            large = client.post("/step", json={"action": {"what": "x" * 1_000_000}}, headers=headers)
            assert (large.status_code, large.json()["code"]) == (413, "TOO_LARGE")
        clients[0].delete("/session", headers=headers)

    @pytest.mark.parametrize("name", ["7.abc", "1.abc", "abc", "1", ".", "-1.abc"])
    def test_sessions_that_nobody_holds_are_not_found(self, clients: list[httpx.Client], name: str) -> None:
        for client in clients:
            assert client.get("/state", headers={SESSION: name}).status_code == 404

    def test_a_socket_attaches_to_it_from_every_worker(self, trio: WorkerServer, clients: list[httpx.Client]) -> None:
        headers = {SESSION: clients[0].post("/reset").headers[SESSION]}
        path = f"/ws?session_id={headers[SESSION]}"
        process = None
        for number in range(1, 7):
            with trio.wire(path) as wire:
                answer = wire.step()
                assert answer["data"]["observation"]["total"] == number
                assert process in (None, process_of(answer))
                process = process_of(answer)
                assert wire.ask(b"\0")["data"]["code"] == "VALIDATION_ERROR"
                with trio.wire(path) as second:
                    assert "already has an attached WebSocket" in second.receive()["data"]["message"]
        clients[1].delete("/session", headers=headers)
        with trio.wire(path) as wire:
            assert wire.receive()["data"]["code"] == "SESSION_ERROR"

    def test_a_session_that_was_attached_lets_go_when_its_client_vanishes(
        self, trio: WorkerServer, clients: list[httpx.Client]
    ) -> None:
        name = clients[0].post("/reset").headers[SESSION]
        for _ in range(6):
            eventually(partial(attached_for_a_step, trio, name), "the last socket was let go", PATIENCE_S)
        clients[0].delete("/session", headers={SESSION: name})


def attached_for_a_step(server: WorkerServer, name: str) -> bool:
    """Attach a socket to a session, and cut it in the middle of a step; say whether the session was free."""
    wire = server.wire(f"/ws?session_id={name}")
    with suppress(ConnectionClosed):
        wire.send({"type": "step", "data": {}})
    free: bool = wire.receive()["type"] == "observation"
    if free:
        wire.send({"type": "step", "data": {}})
        wire.cut()
    return free


class TestDeaths:
    def test_a_killed_worker_costs_its_own_sessions_and_is_replaced(self) -> None:
        with serving(2, 8) as server, ExitStack() as opened:
            wires = [opened.enter_context(server.wire()) for _ in range(8)]
            by_process = {wire: process_of(wire.reset()) for wire in wires}
            victim = server.workers[1]
            os.kill(victim, signal.SIGKILL)
            for wire in wires:
                if by_process[wire] == victim:
                    with pytest.raises(ConnectionClosed):
                        wire.receive(PATIENCE_S)
                else:
                    assert wire.step()["data"]["observation"]["total"] == 1
            eventually(lambda: server.slots_in_use() == 4, "the dead worker's slots were released", PATIENCE_S)
            replacement = children(server.process.pid)[-1]
            server.workers.append(replacement)
            eventually(partial(serves, server, replacement), "the replacement serves", PATIENCE_S)
            eventually(lambda: server.slots_in_use() == 4, "the slot was released", PATIENCE_S)
            more = [opened.enter_context(server.wire()) for _ in range(4)]
            assert replacement in [process_of(wire.reset()) for wire in more]
            with server.wire() as wire:
                assert first_answer(wire)["data"]["code"] == "CAPACITY_REACHED"
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == -signal.SIGTERM
            assert f"worker 1 (process {victim}) was ended by SIGKILL" in server.log()

    def test_a_request_that_was_handed_on_is_answered_when_that_worker_dies(self) -> None:
        with serving(2) as server, server.http() as first, server.http() as second:
            first.get("/health")
            reset = second.post("/reset")
            name = reset.headers[SESSION]
            with server.wire(f"/ws?session_id={name}") as wire:
                assert wire.step()["data"]["observation"]["total"] == 1
                answer = first.post("/step", json={"action": {"what": "leave"}}, headers={SESSION: name})
                assert answer.status_code == 404
                assert "the process that held it was ended" in answer.json()["detail"]
                with pytest.raises(ConnectionClosed):
                    wire.receive(PATIENCE_S)
            eventually(lambda: len(children(server.process.pid)) == 2, "it was replaced", PATIENCE_S)
            server.workers += children(server.process.pid)
            assert first.get("/state", headers={SESSION: name}).status_code == 404
            server.process.terminate()
            assert re.search(r"worker \d \(process \d+\) ended with exit status 7", server.log())

    def test_workers_end_with_a_killed_supervisor_even_one_that_hangs(self) -> None:
        with serving(2, grace_s=0.5) as server:
            with server.wire() as hanging, server.wire() as idle:
                idle.reset()
                hanging.reset()
                hanging.send({"type": "step", "data": {"what": "hang"}})
                server.process.kill()
                eventually(lambda: not any(map(alive, server.workers)), "the workers have ended", PATIENCE_S)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", server.port))

    def test_a_server_whose_workers_can_start_no_more_ends(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken"
        with serving(2, broken=broken) as server, server.wire() as wire:
            broken.touch()
            survivor = process_of(wire.reset())
            os.kill(next(worker for worker in server.workers if worker != survivor), signal.SIGKILL)
            assert server.process.wait(PATIENCE_S) == 1
            log = server.log()
            assert log.count("it is replaced by another worker") == 3
            assert "ProviderError: the application could not be made." in log
            assert log.count("LookupError: the shelf is empty") == 1

    def test_a_process_out_of_files_serves_on_when_it_has_some_again(self) -> None:
        with serving(2) as server, ExitStack() as opened:
            held = [opened.enter_context(server.wire()) for _ in range(4)]
            free = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (free, 4096))
            late = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
            late.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert [wire.reset()["type"] for wire in held] == ["observation"] * 4
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
            assert late.recv(12) == b"HTTP/1.1 200"


def serves(server: WorkerServer, worker: int) -> bool:
    with server.wire() as wire:
        return process_of(wire.reset()) == worker


class TestStart:
    def test_an_application_that_can_not_be_made_is_told_once(self, tmp_path: Path) -> None:
        command = [sys.executable, str(PROGRAMS / "worker_server.py"), "3", "8", "5", str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.count("LookupError: the shelf is empty") == 1

    @pytest.mark.parametrize(
        ("served", "says"),
        [
            ("ended", "ended with exit status 3 before it was ready"),
            ("object", "Expected an application that create_app has made"),
            ("shared", "which 2 workers can't share"),
            ("lambda: 1", "workers=2 needs the environment to be importable in another process"),
        ],
    )
    def test_what_can_not_be_served_by_workers_is_refused(self, served: str, says: str, tmp_path: Path) -> None:
        write_files(
            tmp_path,
            {
                "main.py": f"""
                    import os
                    from echo_env import EchoAction, EchoObservation
                    from echo_env.server.echo_environment import EchoEnvironment
                    from openenv.core.env_server.app import create_app, listen, run_workers

                    def ended():
                        os._exit(3)

                    def shared():
                        return create_app(EchoEnvironment(), EchoAction, EchoObservation)

                    if __name__ == "__main__":
                        with listen("127.0.0.1", 0) as listener:
                            run_workers({served}, 2, listener)
                    """
            },
        )
        ended = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert ended.stderr.count(says) == 1

    def test_fewer_than_one_is_refused(self) -> None:
        with socket.socket() as listener, pytest.raises(ConfigurationError, match="at least 1 worker, got 0"):
            run_workers(dict, 0, listener)


GUESS = """
    from openenv import Action, Environment, Observation, State, serve

    class Guess(Action):
        number: int

    class Hint(Observation):
        text: str = ""

    class GuessEnvironment(Environment[Guess, Hint, State]):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self) -> Hint:
            return Hint(text="from 1 to 20")

        def step(self, action: Guess) -> Hint:
            return Hint()

        @property
        def state(self) -> State:
            return State()

    """


class TestServe:
    @pytest.mark.level("process")
    def test_a_class_of_the_program_itself_is_served(self, tmp_path: Path) -> None:
        start = "if __name__ == '__main__':\n        serve(GuessEnvironment, port={port}, workers=2)\n"
        with self.running(tmp_path, start) as (process, port):
            eventually(lambda: health(port) == {"status": "healthy"}, "it is ready", PATIENCE_S)
            with Wire(f"ws://127.0.0.1:{port}/ws") as wire:
                assert wire.reset()["data"]["observation"]["text"] == "from 1 to 20"
            workers = children(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == -signal.SIGTERM
            assert len(workers) == 2
            assert not any(map(alive, workers))

    @pytest.mark.level("process")
    def test_a_program_that_serves_whenever_it_is_imported_is_told_how_to_mend_it(self, tmp_path: Path) -> None:
        with self.running(tmp_path, "serve(GuessEnvironment, port={port}, workers=2)\n") as (process, _):
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1
            assert errors.count('under `if __name__ == "__main__":`') == 1

    @contextmanager
    def running(self, folder: Path, start: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        write_files(folder, {"guess.py": GUESS + start.format(port=port)})
        command = [sys.executable, "guess.py"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process, port
            finally:
                process.kill()


def health(port: int) -> Any:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=PATIENCE_S).json()
    except httpx.TransportError:
        return None


class TestEnds:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_sessions_are_closed_and_nothing_is_left(self, number: signal.Signals) -> None:
        # As Ctrl-C does in a terminal, to every process at once.
        with serving(2, start_new_session=True) as server, ExitStack() as opened:
            wires = [opened.enter_context(server.wire()) for _ in range(4)]
            for wire in wires:
                wire.reset()
            wires[0].send({"type": "step", "data": {"what": "wait"}})
            server.wait_for_a_step_that_waits()
            os.killpg(server.process.pid, number)
            assert wires[0].receive(PATIENCE_S)["type"] == "observation"
            for wire in wires:
                with pytest.raises(ConnectionClosed):
                    wire.receive(PATIENCE_S)
                assert wire.socket.close_code == 1012
            assert server.process.wait(PATIENCE_S) == (0 if number is signal.SIGINT else -signal.SIGTERM)
            assert server.log() == ""

    def test_an_interrupt_while_workers_start_leaves_nothing(self) -> None:
        command = [sys.executable, "-m", "openenv.cli", "serve", "echo", "-p", "0", "--workers", "3"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            eventually(lambda: len(children(process.pid)) == 3, "the workers are being started", PATIENCE_S)
            workers = children(process.pid)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, errors) == (130, "")
        assert not any(map(alive, workers))

    def test_a_worker_that_hangs_is_killed_after_the_grace(self) -> None:
        with serving(2, grace_s=0.5) as server, server.wire() as wire:
            wire.reset()
            wire.send({"type": "step", "data": {"what": "hang"}})
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == -signal.SIGTERM
            assert not any(map(alive, server.workers))

    def test_a_second_signal_does_not_wait(self) -> None:
        with serving(2, grace_s=600) as server, server.wire() as wire:
            wire.reset()
            wire.send({"type": "step", "data": {"what": "hang"}})
            server.process.terminate()
            eventually(lambda: sum(map(alive, server.workers)) == 1, "the other worker has ended", PATIENCE_S)
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == -signal.SIGTERM
            assert not any(map(alive, server.workers))

    def test_a_request_in_progress_at_another_worker_is_answered(self) -> None:
        with serving(2) as server, server.http() as first, server.http() as second:
            first.get("/health")
            headers = {SESSION: second.post("/reset").headers[SESSION]}
            with ThreadPoolExecutor() as pool:
                step = pool.submit(first.post, "/step", json={"action": {"what": "wait"}}, headers=headers)
                server.wait_for_a_step_that_waits()
                server.process.terminate()
                assert json.loads(step.result().text)["observation"]["total"] == 1
