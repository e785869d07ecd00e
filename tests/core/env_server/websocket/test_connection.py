"""What a connection does for every wire: it reads while requests are under way, within bounds, and answers failures."""

import asyncio
import gc
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json
from tests.conftest import Serve
from tests.support.environments.common import (
    PLACES,
    Add,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    InlineGatedEnvironment,
    Total,
)
from tests.support.fake_socket import FakeSocket
from tests.support.servers import RunningServer, V1Wire, Wire, eventually
from websockets.exceptions import ConnectionClosed

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.history import Journal
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.wire.names import V1

IN_EACH_PLACE = pytest.mark.parametrize("environment", list(PLACES.values()), ids=list(PLACES))
WIRES = pytest.mark.parametrize("wire", ["legacy", "v1"])
STEP = {"type": "step", "data": {"amount": 1}}
HELD_STEP = {"type": "step", "data": {"amount": 9}}


def sessions_of(environment: Any) -> SessionManager:
    limits = ServerConfig(max_sessions=64, resume_window_s=0)
    return SessionManager(EnvironmentFactory(environment), EnvironmentTypes(Add, Total, State), limits)


class EndlessEnvironment(HangingAsyncEnvironment):
    """Adding 9 never ends, and says when it has begun."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    async def step(self, action: Add) -> Total:
        self.gate.note("step")
        self.gate.entered.release()
        return await super().step(action)


class Player:
    """A session on a fake socket, played in the same way on either wire."""

    def __init__(self, socket: FakeSocket, session: str | None) -> None:
        self.socket = socket
        self.session = session
        self.asked = 0

    def ask(self, message: dict[str, Any]) -> None:
        self.asked += 1
        self.socket.put(message if self.session is None else {**message, "session": self.session, "id": self.asked})

    async def answers(self) -> list[dict[str, Any]]:
        return (await self.socket.answers(self.asked + (self.session is not None)))[-self.asked :]


@asynccontextmanager
async def playing(sessions: SessionManager, wire: str, **settings: Any) -> AsyncIterator[Player]:
    async with FakeSocket(sessions, *([V1] if wire == "v1" else []), **settings) as socket:
        session = None
        if wire == "v1":
            socket.put({"type": "open", "id": 0})
            session = (await socket.answers(1))[0]["session"]
        yield Player(socket, session)


class TestReading:
    @pytest.mark.parametrize("path", ["/ws", "/mcp"])
    def test_a_client_that_asks_twice_and_goes_gives_its_slot_back(self, serve: Serve, gate: Gate, path: str) -> None:
        server = serve(partial(EndlessEnvironment, gate), max_concurrent_envs=1)
        call = {"name": "add", "arguments": {"amount": 9}}
        held = HELD_STEP if path == "/ws" else {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        with server.wire(path) as wire:
            if path == "/ws":
                wire.reset()
            wire.send(held)
            gate.wait_until_entered()
            wire.send(held)
            with server.http() as http:
                assert http.get("/health").status_code == 200, "the server has had the time to read the second"
            wire.cut()
            server.wait_for_sessions(0)
        assert gate.calls == ["step"]

    @IN_EACH_PLACE
    def test_requests_that_come_while_others_are_under_way_are_answered_in_order(
        self, serve: Serve, environment: type
    ) -> None:
        with serve(environment).wire() as wire:
            for message in ({"type": "reset"}, *[STEP] * 7, {"type": "state"}, {"type": "bogus"}, STEP):
                wire.send(message)
            answers = [wire.receive() for _ in range(11)]
            totals = [answer["data"]["observation"]["total"] for answer in (*answers[:8], answers[10])]
            assert totals == list(range(9))
            assert [answer["type"] for answer in answers[8:10]] == ["state", "error"]

    def test_what_comes_after_a_close_is_not_carried_out(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.wire() as wire:
            wire.reset()
            for message in (HELD_STEP, {"type": "close"}, STEP):
                wire.send(message)
            gate.wait_until_entered()
            gate.opened.set()
            assert wire.receive()["type"] == "observation"
            with pytest.raises(ConnectionClosed) as ended:
                wire.receive()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1000
        assert gate.calls.count("step") == 1

    @IN_EACH_PLACE
    async def test_a_legacy_client_goes_at_any_turn(self, environment: type) -> None:
        for turns in range(30):
            sessions = sessions_of(environment)
            async with FakeSocket(sessions) as socket:
                for message in ({"type": "reset"}, STEP, {"type": "state"}, STEP):
                    socket.put(message)
                for _ in range(turns):
                    await asyncio.sleep(0)
                socket.go(OSError("gone"))
                await socket.ended()
            await socket.until(partial(has_none, sessions))
            await sessions.close_all()
        gc.collect()  # whatever was never awaited warns now


class TestBytesUnderWay:
    @WIRES
    async def test_a_busy_session_queues_so_many_bytes_and_no_more(self, wire: str) -> None:
        gate = Gate()
        sessions = sessions_of(partial(GatedEnvironment, gate))
        padded = {"type": "step", "data": {"amount": 1, "metadata": {"note": "x" * 1_000_000}}}
        with gate.open_afterwards():
            async with playing(sessions, wire, max_message_bytes=2_000_000) as player:
                player.ask({"type": "reset"})
                player.ask(HELD_STEP)
                for _ in range(40):
                    player.ask(padded)
                await player.socket.settle()
                assert 20 < player.socket.unread < 30, "some 16 MiB are queued"
                gate.opened.set()
                answers = await player.answers()
                assert [answer["data"]["observation"]["total"] for answer in answers[:3]] == [0, 9, 10]
                assert {answer["data"]["code"] for answer in answers[3:]} == {"SESSION_ERROR"}, "the episode is over"
        await sessions.close_all()

    @WIRES
    def test_a_client_that_goes_while_no_more_is_read_gives_its_slot_back(self, wire: str, gate: Gate) -> None:
        environment = partial(EndlessEnvironment, gate)
        app = create_fastapi_app(environment, Add, Total, max_concurrent_envs=1, resume_window_s=0)
        padded = {"amount": 1, "metadata": {"note": "x" * 1_000_000}}
        # The kernel tells of the client's end when the server sends, as it does with pings.
        with RunningServer(app, ws_ping_interval=0.5, ws_ping_timeout=60) as server:
            client = server.v1() if wire == "v1" else server.wire()
            session = client.open() if isinstance(client, V1Wire) else None
            messages = [("reset", {}), ("step", {"amount": 9}), *[("step", padded)] * 19]
            for number, (kind, data) in enumerate(messages, 1):
                named = {} if session is None else {"id": number, "session": session}
                client.send({"type": kind, "data": data, **named})
            gate.wait_until_entered()
            metrics, opening = app.state.sessions.metrics, 1 if wire == "v1" else 0
            eventually(lambda: metrics.frames_in == opening + 2 + 17, "16 MiB are under way")
            client.cut()
            server.wait_for_sessions(0)

    @pytest.mark.level("files")
    async def test_the_longest_message_holds_up_no_other_session(self) -> None:
        gate = Gate()
        sessions = sessions_of(partial(GatedEnvironment, gate))
        with gate.open_afterwards():
            async with FakeSocket(sessions, V1, max_message_bytes=20_000_000) as socket:
                socket.put([{"type": "open", "id": number} for number in range(2)])
                busy, other = (answer["session"] for answer in await socket.answers(2))
                socket.put({"type": "reset", "id": 1, "session": busy})
                await socket.answers(3)
                data = {"amount": 9, "metadata": {"note": "x" * 19_000_000}}
                socket.put({"type": "step", "id": 2, "session": busy, "data": data})
                socket.put({"type": "reset", "id": 1, "session": other})
                assert (await socket.answers(4))[3]["session"] == other
        await sessions.close_all()


class TestCommits:
    def test_further_frames_are_carried_out_during_a_commit(
        self, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.history.stores.sqlite.BUSY_TIMEOUT_S", 60.0)
        journal, gate = tmp_path / "journal.db", Gate()
        gate.opened.set()
        server = serve(partial(InlineGatedEnvironment, gate), journal=str(journal), max_concurrent_envs=3)
        with server.v1() as wire:
            sessions = wire.open_many(3)
            for session in sessions:
                wire.do("reset", session)
            before = gate.calls.count("step")
            with closing(sqlite3.connect(journal, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                for session in sessions:
                    wire.send(wire.message("step", session, amount=1))
                eventually(lambda: gate.calls.count("step") == before + 3, "three steps during the first one's commit")
                with pytest.raises(TimeoutError):
                    wire.receive(timeout_s=0)
                other.execute("ROLLBACK")
            assert {answer["session"] for answer in wire.receive_many(3)} == set(sessions)


class TestServerErrors:
    """Errors of the server's own code, which no environment and no client can bring about."""

    @pytest.mark.parametrize("environment", [PLACES["inline"], PLACES["thread"]], ids=["inline", "thread"])
    def test_on_the_legacy_wire_the_request_is_answered_and_the_session_ends(
        self, serve: Serve, environment: type, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve(environment)
        with server.wire() as other, server.wire() as wire:
            other.reset()
            wire.reset()
            with monkeypatch.context() as patched:
                patched.setattr("openenv.core.env_server.websocket.legacy.encode", failing)
                assert_failed(wire.ask(STEP))
                assert_closes(wire)
            server.wait_for_sessions(1)
            assert other.step(amount=2)["data"]["observation"]["total"] == 2
        assert "a bug of the server" in caplog.text
        server.errors.messages.clear()

    def test_on_v1_an_unreadable_frame_is_answered_and_the_sessions_go_on(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve(CounterEnvironment)
        with server.v1() as wire:
            session = wire.open()
            wire.do("reset", session)
            with monkeypatch.context() as patched:
                patched.setattr("openenv.core.wire.v1.read_json", failing)
                assert_failed(wire.ask({"type": "bogus", "id": 1}))
            assert wire.do("step", session, amount=2)["data"]["observation"]["total"] == 2
        assert "a bug of the server" in caplog.text
        server.errors.messages.clear()

    def test_on_v1_a_message_costs_its_session_at_most(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve(CounterEnvironment)
        with server.v1() as wire:
            bad, good = wire.open_many(2)
            wire.send([wire.message("reset", name) for name in (bad, good)])
            wire.receive_many(2)
            submit = "openenv.core.env_server.resumption.resumable_session.ResumableSession.submit"
            with monkeypatch.context() as patched:
                patched.setattr(submit, failing_once(submit))
                wire.send([wire.message("step", name, amount=1) for name in (bad, good)])
                answers = {answer["session"]: answer for answer in wire.receive_many(2)}
            assert_failed(answers[bad])
            assert answers[good]["data"]["observation"]["total"] == 1
            server.wait_for_sessions(1)
            assert wire.do("step", bad, amount=1)["data"]["code"] == "SESSION_ERROR"
        assert "a bug of the server" in caplog.text
        server.errors.messages.clear()

    def test_on_v1_a_runtime_error_while_answers_are_framed_is_logged_and_closes_the_socket_alone(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_: object) -> Any:
            raise RuntimeError("a bug of the server")

        server = serve(CounterEnvironment)
        with server.v1() as other, server.v1() as wire:
            spared, session = other.open(), wire.open()
            with monkeypatch.context() as patched:
                patched.setattr("openenv.core.env_server.websocket.v1.V1Wire.frames", staticmethod(fail))
                wire.send(wire.message("reset", session))
                assert_closes(wire)
            assert other.do("reset", spared)["type"] == "observation"
        assert "a bug of the server" in caplog.text
        server.errors.messages.clear()

    @pytest.mark.parametrize(("window_s", "way"), [(0, "end"), (0.01, "detach")])
    def test_a_session_that_cannot_be_detached_holds_up_no_other_of_its_socket(
        self, serve: Serve, window_s: float, way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve(CounterEnvironment, resume_window_s=window_s)
        path = f"openenv.core.env_server.resumption.resumable_session.ResumableSession.{way}"
        with server.v1() as wire:
            wire.open_many(3)
            monkeypatch.setattr(path, failing_once(path))
            wire.cut()
        server.wait_for_sessions(1)
        assert "a bug of the server" in caplog.text

    def test_answers_are_sent_although_their_commit_fails(
        self, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve(CounterEnvironment, journal=str(tmp_path / "journal.db"))
        with server.v1() as wire:
            session = wire.open()
            wire.do("reset", session)
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "commit", failing)
                assert wire.do("step", session, amount=2)["data"]["observation"]["total"] == 2
            assert wire.do("step", session, amount=2)["data"]["observation"]["total"] == 4
        assert "a bug of the server" in caplog.text
        server.errors.messages.clear()


def has_none(sessions: SessionManager) -> bool:
    return len(sessions) == 0


def failing(*_: object, **__: object) -> Any:
    raise LookupError("a bug of the server")


def failing_once(path: str) -> Callable[..., Any]:
    """Return a function that fails at its first call, and then is the one of that name."""
    module, _, name = path.rpartition(".")
    module, _, owner = module.rpartition(".")
    original = getattr(getattr(__import__(module, fromlist=[owner]), owner), name)
    calls: list[int] = []

    def called(*arguments: Any) -> Any:
        calls.append(1)
        return failing() if len(calls) == 1 else original(*arguments)

    return called


def assert_failed(answer: dict[str, Any]) -> None:
    assert answer["type"] == "error", answer
    assert answer["data"]["code"] == "EXECUTION_ERROR"
    assert "server failed" in answer["data"]["message"]
    assert "bug" not in json.dumps(answer)


def assert_closes(wire: Wire) -> None:
    with pytest.raises(ConnectionClosed) as ended:
        wire.receive()
    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == 1011


@WIRES
async def test_other_tasks_run_between_reading_a_long_message_and_carrying_it_out(
    monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    turns: list[str] = []

    class Noting(CounterEnvironment):
        def step(self, action: Add) -> Total:
            turns.append("step")
            return super().step(action)

    def parse(frame: str) -> Any:
        asyncio.get_running_loop().call_soon(turns.append, "another task")
        return from_json(frame)

    named: dict[str, Any] = {}
    async with FakeSocket(sessions_of(Noting), *([V1] if wire == "v1" else []), max_message_bytes=4_000_000) as socket:
        if wire == "v1":
            socket.put({"type": "open", "id": 1})
            named = {"session": (await socket.answers(1))[0]["session"]}
        socket.put({"type": "reset", **named, **({"id": 1} if named else {})})
        answered = len(await socket.answers(2 if named else 1))
        monkeypatch.setattr("openenv.core.wire.bounded_json.from_json", parse)
        numbered = {"id": 2} if named else {}
        socket.put({**STEP, **named, **numbered, "data": {"amount": 1, "metadata": {"note": "x" * 2_000_000}}})
        await socket.answers(answered + 1)
    assert turns == ["another task", "step"]
