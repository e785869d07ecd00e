"""The public dialect of MCP: over HTTP, in messages of type mcp, and the sessions that it opens."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    Do,
    Gate,
    GatedEnvironment,
    MischievousEnvironment,
    Shown,
    SingleSessionEnvironment,
)
from tests.support.mcp_agents import Notes, NotesEnvironment
from tests.support.servers import RunningServer, eventually

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.history.entries import HistoryEntry
from openenv.core.env_server.resumption.replay import refuse_unrepeatable
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.messages import V1Request
from openenv.core.wire.names import SESSION_HEADER

NOTES = environment_types(NotesEnvironment)
NO_DATA = {"data": None}


@pytest.fixture
def notes(serve: Serve, gate: Gate) -> Iterator[httpx.Client]:
    server = serve(partial(Notes, gate), NOTES.action, NOTES.observation)
    with server.http() as http:
        yield http


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def post(http: httpx.Client, method: str, **params: Any) -> dict[str, Any]:
    response = http.post("/mcp", json=rpc(method, **params))
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", 1)
    return answer


def call(http: httpx.Client, name: str, session_id: str | None = None, **arguments: Any) -> dict[str, Any]:
    named = {} if session_id is None else {"session_id": session_id}
    return post(http, "tools/call", name=name, arguments=arguments, **named)


def create(http: httpx.Client) -> str:
    session_id: str = post(http, "openenv/session/create")["result"]["session_id"]
    return session_id


@pytest.fixture(scope="module")
def notes_server() -> Iterator[RunningServer]:
    """One server of notes for all tests that leave no session on it."""
    with Gate().open_afterwards() as gate:
        app = create_fastapi_app(partial(Notes, gate), NOTES.action, NOTES.observation, max_concurrent_envs=8)
        with RunningServer(app) as server:
            yield server


class TestShapes:
    """What programs of the public package read, key for key."""

    @pytest.fixture
    def notes(self, notes_server: RunningServer) -> Iterator[httpx.Client]:
        with notes_server.http() as http:
            yield http
        notes_server.wait_for_sessions(0)
        notes_server.assert_no_errors()

    def test_the_tools(self, notes: httpx.Client) -> None:
        tools = {tool["name"]: tool for tool in post(notes, "tools/list")["result"]["tools"]}
        assert tools["write"] == {
            "name": "write",
            "title": None,
            "description": "Write a note.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Where."},
                    "text": {"type": "string", "description": "What."},
                },
                "required": ["path", "text"],
            },
            "outputSchema": None,
            "icons": None,
            "annotations": None,
            "meta": None,
            "execution": None,
        }

    def test_a_call(self, notes: httpx.Client) -> None:
        text = {"type": "text", "text": "1 notes", "annotations": None, "meta": None}
        assert call(notes, "write", path="a", text="b") == {
            "result": {
                "content": [text],
                "structured_content": {"result": "1 notes"},
                "meta": None,
                "data": "1 notes",
                "is_error": False,
            }
        }
        assert call(notes, "count")["result"]["structured_content"] == {"notes": 0}
        assert call(notes, "submit")["result"]["meta"] == {"openenv/reward": 1.0, "openenv/done": True}

    @pytest.mark.parametrize(
        ("method", "params", "error"),
        [
            ("tools/call", {"name": "zip"}, {"code": -32603, "message": "Unknown tool: 'zip'"}),
            ("tools/call", {}, {"code": -32602, "message": "Missing 'name' in params"}),
            ("tools/call", {"name": 7}, {"code": -32602, "message": "Missing 'name' in params"}),
            (
                "tools/call",
                {"name": "count", "arguments": []},
                {"code": -32602, "message": "Expected 'arguments' to be an object"},
            ),
            ("ping", {}, {"code": -32601, "message": "Method not found: ping"}),
            ("tools/list", {"session_id": "zzz"}, {"code": -32602, "message": "Unknown session_id: zzz"}),
            ("openenv/session/close", {"session_id": "zzz"}, {"code": -32602, "message": "Unknown session_id: zzz"}),
            (
                "openenv/session/close",
                {},
                {"code": -32602, "message": "Invalid params - 'session_id' is required"},
            ),
        ],
    )
    def test_errors(self, notes: httpx.Client, method: str, params: dict[str, Any], error: dict[str, Any]) -> None:
        assert post(notes, method, **params) == {"error": error | NO_DATA}

    @pytest.mark.parametrize("body", [b"not json", b"[]", b"[1]", b"", b"\xff", b"[" * 100_000, b'"\\ud83d"'])
    def test_what_is_no_json(self, notes: httpx.Client, body: bytes) -> None:
        response = notes.post("/mcp", content=body)
        assert response.status_code == 200
        error = {"code": -32700, "message": "Parse error", "data": None}
        assert response.json() == {"jsonrpc": "2.0", "id": None, "error": error}

    @pytest.mark.parametrize(
        "document",
        [{}, "x", 7, {"jsonrpc": "1.0", "method": "m"}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": "m", "x": 1}],
    )
    def test_what_is_no_request(self, notes: httpx.Client, document: Any) -> None:
        response = notes.post("/mcp", json=document)
        assert (response.status_code, response.json()["id"]) == (200, None)
        error = response.json()["error"]
        assert (error["code"], error["data"]) == (-32600, None)
        assert error["message"].startswith("Invalid request: ")

    def test_a_notification_is_answered_too(self, notes: httpx.Client) -> None:
        response = notes.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (response.status_code, response.json()["id"]) == (200, None)

    def test_what_can_t_be_written_is_an_error(self, serve: Serve) -> None:
        deep: Any = []
        for _ in range(2000):
            deep = [deep]
        table = {"deep": lambda: Shown(value=deep), "half": lambda: Shown(value="\ud83d")}
        with serve(partial(MischievousEnvironment, table), Do, Shown).http() as http:
            for what in table:
                assert call(http, "do", what=what)["error"]["code"] in (-32603, -32000)
            assert call(http, "do", what="fine")["result"]["data"]["value"] == "fine"


class TestSessions:
    def test_one_that_a_program_holds(self, notes: httpx.Client, gate: Gate) -> None:
        session_id = create(notes)
        assert gate.calls == ["make"]
        for count in (1, 2, 3):
            assert call(notes, "write", session_id, path=f"{count}", text="")["result"]["data"] == f"{count} notes"
        assert gate.calls == ["make", "reset"]
        closed = post(notes, "openenv/session/close", session_id=session_id)
        assert closed == {"result": {"session_id": session_id, "closed": True}}
        eventually(lambda: gate.calls[-1] == "close", "its environment is closed")
        assert call(notes, "count", session_id)["error"]["message"] == f"Unknown session_id: {session_id}"

    def test_without_one_each_call_has_an_environment_of_its_own(self, notes: httpx.Client, gate: Gate) -> None:
        for _ in range(2):
            assert call(notes, "write", path="a", text="b")["result"]["data"] == "1 notes"
        assert gate.calls == ["make", "reset", "close"] * 2

    def test_no_place(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.http() as http:
            session_id = create(http)
            error = post(http, "openenv/session/create")["error"]
            assert error == {
                "code": -32000,
                "message": "Server at capacity: 1/1 sessions active. Cannot accept new connections.",
                "data": {"active_sessions": 1, "max_sessions": 1},
            }
            assert call(http, "add", amount=1)["result"]["data"]["total"] == 1, "a call apart counts for none"
            post(http, "openenv/session/close", session_id=session_id)
            create(http)

    def test_a_socket_attaches_to_it(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            session_id = create(http)
            with counter_server.wire(f"/ws?session_id={session_id}") as wire:
                wire.reset(seed=7)
                wire.step(amount=2)
                assert call(http, "add", session_id, amount=3)["result"]["data"]["total"] == 5
                assert wire.step(amount=1)["data"]["observation"]["total"] == 6
                with counter_server.wire(f"/ws?session_id={session_id}") as second:
                    assert "already has an attached WebSocket" in second.receive()["data"]["message"]
            eventually(lambda: "result" in call(http, "add", session_id, amount=1), "it goes on without the socket")
            with counter_server.wire(f"/ws?session_id={session_id}") as wire:
                assert wire.state()["data"]["step_count"] == 4
                closing = post(http, "openenv/session/close", session_id=session_id)
                assert closing == {"result": {"session_id": session_id, "closed": False, "closing": True}}
                assert wire.step(amount=1)["data"]["observation"]["total"] == 8
            counter_server.wait_for_sessions(0)

    def test_one_whose_socket_was_cut_makes_room_for_another(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.http() as http:
            session_id = create(http)
            wire = server.wire(f"/ws?session_id={session_id}")
            wire.reset()
            assert "error" in post(http, "openenv/session/create")
            wire.cut()
            eventually(lambda: "result" in post(http, "openenv/session/create"), "there is room")

    def test_one_whose_socket_said_goodbye_does_not(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.http() as http:
            session_id = create(http)
            with server.wire(f"/ws?session_id={session_id}") as wire:
                wire.reset()
            eventually(lambda: server.connections == 1, "the socket has gone")
            assert "error" in post(http, "openenv/session/create")
            assert call(http, "add", session_id, amount=1)["result"]["data"]["total"] == 1

    def test_one_that_nobody_uses_ends(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=1, session_timeout=0.1))
        with server.http() as http:
            create(http)
            server.wait_for_sessions(0)

    def test_one_over_http_is_found_too(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            session_id = http.post("/reset").headers[SESSION_HEADER]
            assert call(http, "add", session_id, amount=3)["result"]["data"]["total"] == 3
            http.delete("/session")

    def test_a_socket_s_session_is_nobody_else_s(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as legacy, counter_server.v1() as wire, counter_server.http() as http:
            legacy.reset()
            session_id = wire.open()
            ids = [session.id for session in counter_server.app.state.sessions]
            assert session_id in ids
            for one in ids:
                assert "Unknown session_id" in call(http, "add", one, amount=1)["error"]["message"]

    def test_two_first_calls_at_once_begin_one_episode(self, notes: httpx.Client, gate: Gate) -> None:
        session_id = create(notes)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: call(notes, "write", session_id, path=f"{n}", text=""), range(8)))
        assert call(notes, "count", session_id)["result"]["data"] == {"notes": 8}
        assert gate.calls.count("reset") == 1

    @pytest.mark.parametrize("way", ["http", "socket", "mcp socket"])
    def test_a_close_during_a_call_is_answered_and_so_is_the_call(self, way: str) -> None:
        gate = Gate()
        app = create_fastapi_app(partial(Notes, gate), NOTES.action, NOTES.observation, max_concurrent_envs=8)
        with RunningServer(app) as server, server.http() as http, server.http() as other, ThreadPoolExecutor(1) as pool:
            session_id = create(http)
            held = pool.submit(call, http, "slow", session_id)
            with gate.open_afterwards():
                gate.wait_until_entered()
                closing = rpc("openenv/session/close", session_id=session_id)
                if way == "http":
                    answer = other.post("/mcp", json=closing).json()
                elif way == "socket":
                    with server.wire() as wire:
                        answer = wire.ask({"type": "mcp", "data": closing})["data"]
                else:
                    with server.wire("/mcp") as wire:
                        answer = wire.ask(closing)
            assert answer["result"]["session_id"] == session_id
            assert held.result(60)["result"]["data"] == "through"


class TestMessages:
    """Of type mcp, on ``/ws``."""

    def test_on_the_legacy_wire(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            tools = wire.ask({"type": "mcp", "data": rpc("tools/list")})
            assert (tools["type"], tools["data"]["id"]) == ("mcp", 1)
            listed = [(tool["name"], tool["meta"]) for tool in tools["data"]["result"]["tools"]]
            assert listed == [("add", {"openenv/action": "Add"})]
            told = wire.ask({"type": "mcp", "data": rpc("tools/call", name="add", arguments={"amount": 4})})
            assert told["data"]["result"]["data"] == {"total": 4, "done": False}
            assert wire.step(amount=1)["data"]["observation"]["total"] == 5
            assert wire.state()["data"]["step_count"] == 2
            assert wire.ask({"type": "mcp", "data": {}})["data"]["error"]["code"] == -32600
            own = wire.ask({"type": "mcp", "data": rpc("openenv/session/create")})["data"]["result"]["session_id"]
            refused = wire.ask({"type": "mcp", "data": rpc("openenv/session/close", session_id=own)})
            assert refused["data"]["error"]["code"] == -32600
            with counter_server.http() as http:
                other = create(http)
                closed = wire.ask({"type": "mcp", "data": rpc("openenv/session/close", session_id=other)})
                assert closed["data"]["result"] == {"session_id": other, "closed": True}
                assert "Unknown session_id" in call(http, "add", other, amount=1)["error"]["message"]
            assert wire.step(amount=1)["data"]["observation"]["total"] == 6

    def test_on_v1(self, counter_server: RunningServer) -> None:
        with counter_server.v1() as wire:
            session = wire.open()
            wire.do("reset", session, seed=1)
            message = wire.message("mcp", session, **rpc("tools/call", name="add", arguments={"amount": 10}))
            answer = wire.ask(message)
            assert answer["data"]["result"]["meta"] == {"openenv/reward": 10.0, "openenv/done": True}
            assert wire.ask(message) == answer, "a repeated request is no second step"
            own = wire.do("mcp", session, **rpc("openenv/session/create"))
            assert own["data"]["result"] == {"session_id": session}
            for name, code in ((session, -32600), ("another", -32602)):
                refused = wire.do("mcp", session, **rpc("openenv/session/close", session_id=name))
                assert refused["data"]["error"]["code"] == code
            again = wire.do("mcp", session, **rpc("tools/call", name="add", arguments={"amount": 1}))
            assert again["data"]["error"]["code"] == -32000

    def test_a_call_is_a_step_that_a_fork_repeats(self, counter_server: RunningServer) -> None:
        with counter_server.v1() as wire:
            session = wire.open()
            wire.do("reset", session, seed=1)
            wire.do("mcp", session, **rpc("tools/call", name="add", arguments={"amount": 4}))
            forked = wire.do("fork", session, count=1)
            child = forked["data"]["sessions"][0]["session"]
            assert wire.do("step", child, amount=1)["data"]["observation"]["total"] == 5


def test_a_call_that_ran_into_its_timeout_can_t_be_repeated() -> None:
    call = V1Request("mcp", {}, 3, "s")
    fine = [HistoryEntry(call, '{"result":{}}'), HistoryEntry(call, '{"error":{"data":null}}'), HistoryEntry(call, 7)]
    refuse_unrepeatable(fine)
    with pytest.raises(SessionLostError, match="timeout"):
        refuse_unrepeatable([*fine, HistoryEntry(call, '{"error":{"data":{"code":"TIMEOUT"}}}')])


def test_a_call_that_ran_into_its_timeout_is_not_repeated_for_a_fork(serve: Serve, gate: Gate) -> None:
    server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.05)
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session, seed=1)
        late = wire.do("mcp", session, **rpc("tools/call", name="add", arguments={"amount": 9}))
        assert late["data"]["error"]["data"]["code"] == "TIMEOUT"
        gate.opened.set()
        refused = wire.do("fork", session, count=1)["data"]
        assert "request 2 (mcp) ran into its timeout" in refused["reasons"]["a replay"]


class TestLimits:
    def test_a_long_body_is_refused(self, serve: Serve) -> None:
        with serve(max_message_size_mb=0.001).http() as http:
            big = json.dumps(rpc("tools/call", name="x" * 2000))
            for content in (big.encode(), iter([big.encode()])):
                response = http.post("/mcp", content=content)
                assert (response.status_code, response.json()["code"]) == (413, "TOO_LARGE")
            native = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
            assert http.post("/mcp", content=big.encode(), headers=native).status_code == 413

    def test_too_many_requests_are_refused(self, serve: Serve) -> None:
        with serve(max_messages_per_s=2).http() as http:
            statuses = [http.post("/mcp", json=rpc("tools/list")).status_code for _ in range(5)]
        assert statuses[:2] == [200, 200]
        assert 429 in statuses

    def test_a_call_that_takes_too_long(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.05)
        with server.http() as http:
            error = call(http, "add", create(http), amount=9)["error"]
            assert (error["code"], error["data"]["code"]) == (-32000, "TIMEOUT")
            gate.opened.set()
