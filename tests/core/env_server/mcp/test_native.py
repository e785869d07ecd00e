"""MCP's streamable HTTP: the official client, and clients that do what it would not."""

import asyncio
import gc
import logging
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import McpError
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    SingleSessionEnvironment,
    Total,
)
from tests.support.mcp_agents import (
    BOTH_KINDS,
    BareAgent,
    Notes,
    NotesEnvironment,
    agent,
    run,
    text_of,
)
from tests.support.servers import RunningServer, eventually, ticks

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.environment_types import environment_types
from openenv.core.wire.names import AGENT_HEADER, SESSION_HEADER

NOTES = environment_types(NotesEnvironment)
UNHANDLED = ("mcp", "openenv", "asyncio", "sse_starlette", "uvicorn")


@pytest.fixture
def notes(serve: Serve, gate: Gate) -> RunningServer:
    return serve(partial(Notes, gate), NOTES.action, NOTES.observation)


def total(session: Any) -> Any:
    return session.structuredContent["total"]


def begun(http: httpx.Client) -> BareAgent:
    """Connect an agent, and have it do something."""
    bare = BareAgent(http)
    bare.connect()
    bare.call("write", path="a", text="b")
    return bare


def held_stream(server: RunningServer, bare: BareAgent) -> socket.socket:
    """Open an agent's stream, on a socket of its own."""
    line = socket.create_connection(("127.0.0.1", server.port))
    name = f"{AGENT_HEADER}: {bare.headers[AGENT_HEADER]}"
    line.sendall(f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {BOTH_KINDS}\r\n{name}\r\n\r\n".encode())
    assert line.recv(4096).startswith(b"HTTP/1.1 200")
    return line


def cut(line: socket.socket) -> None:
    """Go without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


class TestSessions:
    def test_each_agent_has_a_session_of_its_own_and_gives_it_back(self, counter_server: RunningServer) -> None:
        async def play(amounts: list[int]) -> list[int]:
            async with agent(f"{counter_server.url}/mcp") as session:
                return [total(await session.call_tool("add", {"amount": amount})) for amount in amounts]

        async def both() -> tuple[list[int], list[int]]:
            one, other = await asyncio.gather(play([1, 2, 3]), play([2, 2, 2]))
            return one, other

        assert run(both()) == ([1, 3, 6], [2, 4, 6])
        counter_server.wait_for_sessions(0)

    def test_a_connection_takes_no_place_before_it_needs_one(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            bare = BareAgent(http)
            bare.connect()
            bare.ask("ping")
            assert counter_server.sessions.active_sessions == 0
            bare.ask("tools/list")
            assert counter_server.sessions.active_sessions == 1
            assert http.delete("/mcp", headers=bare.headers).status_code == 200
            assert counter_server.sessions.active_sessions == 0

    def test_the_place_is_free_as_soon_as_the_end_is_answered(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)

        async def play() -> int:
            async with agent(f"{server.url}/mcp") as session:
                return int(total(await session.call_tool("add", {"amount": 1})))

        assert [run(play()) for _ in range(5)] == [1] * 5

    def test_a_tool_says_for_which_action_it_stands(self, serve: Serve) -> None:
        server = serve(CounterEnvironment, max_concurrent_envs=1)

        async def listed() -> list[tuple[str, Any]]:
            async with agent(f"{server.url}/mcp") as session:
                return [(tool.name, tool.meta) for tool in (await session.list_tools()).tools]

        assert run(listed()) == [("add", {"openenv/action": "Add"})]

    def test_no_place_is_an_error_that_says_so(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)

        async def play() -> McpError:
            async with agent(f"{server.url}/mcp") as first, agent(f"{server.url}/mcp") as second:
                await first.list_tools()
                with pytest.raises(McpError) as refused:
                    await second.call_tool("add", {"amount": 1})
                await first.call_tool("add", {"amount": 1})
                return refused.value

        error = run(play()).error
        assert error.code == -32000
        assert error.message == "Server at capacity: 1/1 sessions active. Cannot accept new connections."
        assert error.data == {"active_sessions": 1, "max_sessions": 1}

    def test_an_environment_that_can_t_be_made_is_an_error(self, serve: Serve) -> None:
        def broken() -> CounterEnvironment:
            raise RuntimeError("no")

        with serve(broken, max_concurrent_envs=1).http() as http:
            bare = BareAgent(http)
            bare.connect()
            error = bare.ask("tools/list")["error"]
        assert (error["code"], error["data"]) == (-32000, {"factory_name": "CounterEnvironment"})

    def test_a_reset_that_fails_leaves_no_session_and_may_be_tried_again(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), reset_timeout_s=0.05)
        with server.http() as http:
            bare = BareAgent(http, "/mcp?episode_id=held")
            bare.connect()
            assert bare.ask("tools/list")["error"]["data"]["code"] == "TIMEOUT"
            gate.opened.set()
            server.wait_for_sessions(0)
            assert [tool["name"] for tool in bare.ask("tools/list")["result"]["tools"]] == ["add"]

    def test_two_requests_at_once_open_one_session(self, notes: RunningServer, gate: Gate) -> None:
        async def play() -> None:
            async with agent(f"{notes.url}/mcp") as session:
                await asyncio.gather(*(session.call_tool("write", {"path": f"{n}", "text": ""}) for n in range(8)))
                assert (await session.call_tool("count", {})).structuredContent == {"notes": 8}

        run(play())
        assert gate.calls.count("make") == 1
        assert gate.calls.count("reset") == 1


class TestTask:
    def test_the_query_chooses_it(self, notes: RunningServer) -> None:
        async def play() -> str:
            async with agent(f"{notes.url}/mcp?seed=3&split=train&index=0&hard=true&name=007x") as session:
                return str((await session.get_prompt("task")).messages[0].content.text)  # type: ignore[union-attr]

        assert '"task":{"seed":3,"split":"train","index":0,"hard":true,"name":"007x"}' in run(play())

    @pytest.mark.parametrize("query", ["seed=-1", "seed=x", f"episode_id={'x' * 256}"])
    def test_one_that_can_t_be_is_told(self, counter_server: RunningServer, query: str) -> None:
        with counter_server.http() as http:
            response = BareAgent(http, f"/mcp?{query}").connect()
        assert response.status_code == 400
        assert query.partition("=")[0] in response.json()["error"]["message"]

    def test_later_requests_can_t_change_it(self, notes: RunningServer) -> None:
        with notes.http() as http:
            bare = BareAgent(http, "/mcp?seed=3")
            bare.connect()
            bare.path = "/mcp?seed=4"
            assert '"seed":3' in bare.ask("prompts/get", name="task")["result"]["messages"][0]["content"]["text"]


class TestBound:
    """An agent may play in a session that its trainer has opened; it neither resets nor ends that."""

    @pytest.mark.parametrize("way", ["header", "query"])
    def test_to_a_session_over_http(self, counter_server: RunningServer, way: str) -> None:
        with counter_server.http() as trainer, counter_server.http() as http:
            session_id = trainer.post("/reset").headers[SESSION_HEADER]
            trainer.post("/step", json={"action": {"amount": 3}})
            bare = BareAgent(http, "/mcp" if way == "header" else f"/mcp?session_id={session_id}")
            if way == "header":
                bare.headers[SESSION_HEADER] = session_id
            bare.connect()
            assert bare.call("add", amount=2)["result"]["structuredContent"] == {"total": 5, "done": False}
            assert http.delete("/mcp", headers=bare.headers).status_code == 200
            assert trainer.post("/step", json={"action": {"amount": 1}}).json()["observation"]["total"] == 6
            trainer.delete("/session")

    def test_it_is_not_reset(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            made = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}).json()
            bare = BareAgent(http, f"/mcp?session_id={made['result']['session_id']}")
            bare.connect()
            refused = bare.call("add", amount=2)["result"]
            assert refused["isError"]
            assert "the client that opened this session has not begun an episode" in refused["content"][0]["text"]
            closing = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": made["result"]}
            http.post("/mcp", json=closing)
            assert "Unknown session_id" in bare.call("add", amount=2)["error"]["message"]

    def test_one_that_there_is_not(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            bare = BareAgent(http, "/mcp?session_id=zzz")
            bare.connect()
            assert bare.ask("tools/list")["error"]["message"] == "Unknown session_id: zzz"


class TestCalls:
    def test_progress_comes_while_the_tool_works(self, notes: RunningServer, gate: Gate) -> None:
        seen: list[tuple[float, float | None, str | None]] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, total, message))
            gate.opened.set()

        async def play() -> str:
            async with agent(f"{notes.url}/mcp") as session:
                return text_of(await session.call_tool("slow", {}, progress_callback=note))

        assert run(play()) == "through"
        assert seen == [(0.25, 1.0, "at the gate"), (0.75, 1.0, "through")]

    @pytest.mark.parametrize("name", ["hang", "slow"])
    def test_a_call_that_is_cancelled_is_waited_for_no_more(self, notes: RunningServer, gate: Gate, name: str) -> None:
        with notes.http() as http, notes.http() as other, ThreadPoolExecutor() as pool:
            bare = BareAgent(http)
            bare.connect()
            called = bare.request("tools/call", name=name, arguments={})
            answer = pool.submit(bare.post, called)
            gate.wait_until_entered()
            cancelling = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": called["id"]},
            }
            assert other.post("/mcp", json=cancelling, headers=bare.headers).status_code == 202
            assert BareAgent.answer(answer.result(60))["error"]["message"] == "Request cancelled"
            if name == "hang":
                assert gate.calls[-1] == "hung"
            gate.opened.set()
            assert bare.call("count")["result"]["structuredContent"] == {"notes": 0}

    def test_an_agent_that_goes_in_the_middle_of_a_call(self, notes: RunningServer, gate: Gate) -> None:
        with notes.http() as http:
            bare = BareAgent(http)
            bare.connect()
            with socket.create_connection(("127.0.0.1", notes.port)) as line:
                body = b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"slow"}}'
                head = (
                    f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {BOTH_KINDS}\r\n"
                    "Content-Type: application/json\r\n"
                    f"{AGENT_HEADER}: {bare.headers[AGENT_HEADER]}\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                line.sendall(head.encode() + body)
                gate.wait_until_entered()
            gate.opened.set()
            assert bare.call("write", path="a", text="b")["result"]["content"][0]["text"] == "1 notes"

    def test_names_and_arguments_are_carried_or_refused(self, notes: RunningServer) -> None:
        with notes.http() as http:
            bare = BareAgent(http)
            bare.connect()
            for text in ('"""', "'; import os", "\x00\u202e🟩", "</script>", "x" * 1_000_000):
                assert bare.call("write", path=text, text=text)["result"]["content"][0]["text"].endswith("notes")
                assert bare.call("read", path=text)["result"]["content"][0]["text"] == text
            for name in ("reset", "step", "close", "state", "__init__", "write\n", "", "x" * 1_000_000, "_notes"):
                result = bare.call(name)["result"]
                assert result["isError"]
                assert len(result["content"][0]["text"]) < 1000
            wrong: list[dict[str, Any]] = [{"path": 1}, {"path": None, "text": []}, {"path": "", "text": "", "more": 1}]
            for arguments in wrong:
                assert bare.call("write", **arguments)["result"]["isError"]

    def test_what_no_json_has_is_carried_as_well_as_it_can_be(self, notes: RunningServer) -> None:
        with notes.http() as http:
            bare = BareAgent(http)
            bare.connect()
            assert not bare.call("half")["result"].get("isError") or "UTF" in str(bare.call("half")).upper()
            assert bare.call("count")["result"]["structuredContent"] == {"notes": 0}

    def test_a_step_that_takes_too_long_is_a_result_that_says_so(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.05)
        with server.http() as http:
            bare = BareAgent(http)
            bare.connect()
            result = bare.call("add", amount=9)["result"]
            assert result["isError"]
            assert "did not finish within 0.05 s" in result["content"][0]["text"]
            gate.opened.set()


class TestProtocol:
    @pytest.fixture
    def bare(self, counter_server: RunningServer) -> Any:
        with counter_server.http() as http:
            bare = BareAgent(http)
            bare.connect()
            yield bare
            http.delete("/mcp", headers=bare.headers)

    @pytest.mark.parametrize(
        "body",
        [
            b"not json",
            b"[]",
            b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
            b'"x"',
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"jsonrpc":"2.0","id":1,"method":"\\ud83d"}',
            b"",
        ],
    )
    def test_what_is_no_message(self, bare: BareAgent, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
        response = bare.post(body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
        assert bare.ask("ping")["result"] == {}
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    def test_a_message_that_is_none_of_mcp_s(self, bare: BareAgent, caplog: pytest.LogCaptureFixture) -> None:
        assert bare.post({"id": 1}).status_code == 400
        assert bare.ask("no/such/method")["error"]["code"] == -32602
        assert bare.ask("tools/call", nonsense=1)["error"]["code"] == -32602
        assert bare.ask("ping")["result"] == {}
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    def test_a_session_that_there_is_not(self, bare: BareAgent) -> None:
        for method in ("GET", "POST", "DELETE"):
            headers = {**bare.headers, AGENT_HEADER: "zzz", "Content-Type": "application/json"}
            content = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else b""
            assert bare.http.request(method, "/mcp", content=content, headers=headers).status_code == 404

    def test_an_agent_that_did_not_introduce_itself(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            response = BareAgent(http).post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert response.status_code == 400
        assert AGENT_HEADER in response.json()["error"]["message"]

    def test_other_methods(self, bare: BareAgent) -> None:
        for method in ("PUT", "PATCH"):
            response = bare.http.request(method, "/mcp", headers=bare.headers)
            assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, DELETE")
        response = bare.http.get("/mcp", headers={"Accept": "text/html"})
        assert (response.status_code, response.headers["allow"]) == (405, "POST, DELETE")

    @pytest.mark.parametrize(
        ("name", "value", "statuses"),
        [
            ("Content-Type", "text/plain", (400, 415)),
            ("MCP-Protocol-Version", "1", (400,)),
        ],
    )
    def test_headers_that_mcp_does_not_have(
        self, bare: BareAgent, name: str, value: str, statuses: tuple[int, ...]
    ) -> None:
        assert bare.post(bare.request("ping"), **{name: value}).status_code in statuses
        assert bare.ask("ping")["result"] == {}

    def test_a_connection_that_was_refused_leaves_nothing(self, counter_server: RunningServer) -> None:
        connections = counter_server.app.state.agents._connections
        before = 0 if connections is None else len(connections)
        with counter_server.http() as http:
            bare = BareAgent(http)
            assert bare.post(bare.request("initialize"), **{"Content-Type": "text/plain"}).status_code in (400, 415)
        connections = counter_server.app.state.agents._connections
        eventually(lambda: len(connections) == before, "it is gone")


class TestGone:
    def test_an_agent_that_asks_nothing_is_disconnected(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=2, session_timeout=1.5))
        with server.http() as http:
            bare = BareAgent(http)
            bare.connect()
            bare.call("add", amount=1)
            server.wait_for_sessions(0)
            eventually(lambda: len(server.app.state.agents._connections) == 0, "its connection has ended")
            assert bare.post(bare.request("ping")).status_code == 404

    def test_one_that_pings_is_not(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=2, session_timeout=4))
        with server.http() as http:
            bare = BareAgent(http)
            bare.connect()
            bare.call("add", amount=1)
            for _ in ticks(6):
                bare.ask("ping")
            assert bare.call("add", amount=1)["result"]["structuredContent"]["total"] == 2

    def test_one_that_lost_its_stream_makes_room_for_another(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.http() as http:
            lost, next_one, late = BareAgent(http), BareAgent(http), BareAgent(http)
            lost.connect()
            with http.stream("GET", "/mcp", headers=lost.headers) as stream:
                assert stream.status_code == 200
                lost.call("add", amount=1)
                next_one.connect()
                assert next_one.call("add", amount=1)["error"]["code"] == -32000
            eventually(lambda: "result" in next_one.call("add", amount=1), "there is room")
            assert lost.post(lost.request("ping")).status_code == 404
            late.connect()
            assert late.call("add", amount=1)["error"]["code"] == -32000
            http.delete("/mcp", headers=next_one.headers)

    def test_one_that_lost_its_stream_and_comes_back_keeps_its_session(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.http() as http:
            bare, other = BareAgent(http), BareAgent(http)
            bare.connect()
            bare.call("add", amount=1)
            with http.stream("GET", "/mcp", headers=bare.headers):
                pass
            bare.ask("ping")
            other.connect()
            assert other.call("add", amount=1)["error"]["code"] == -32000
            assert bare.call("add", amount=1)["result"]["structuredContent"]["total"] == 2
            http.delete("/mcp", headers=bare.headers)

    @pytest.mark.level("process")
    def test_200_that_were_dropped_leave_nothing(self, serve: Serve, gate: Gate) -> None:
        server = serve(
            partial(Notes, gate),
            NOTES.action,
            NOTES.observation,
            max_concurrent_envs=None,
            concurrency_config=ConcurrencyConfig(max_concurrent_envs=256, session_timeout=2.0),
        )
        threads = threading.active_count()
        with server.http() as http:
            lines = [held_stream(server, begun(http)) for _ in range(200)]
            for line in lines:
                cut(line)
        server.wait_for_sessions(0)
        connections = server.app.state.agents._connections
        eventually(lambda: len(connections) == 0, "all connections have ended")
        eventually(lambda: gate.calls.count("close") == 200, "all environments are closed")
        eventually(lambda: threading.active_count() <= threads + 1, "all threads have ended")
        eventually(lambda: server.connections == 0, "all sockets are closed")
        # The one more thread may be about to end with what it held.
        eventually(lambda: not notes_in_memory(), "all environments are forgotten")


def notes_in_memory() -> list[object]:
    gc.collect()
    return [environment for environment in gc.get_objects() if type(environment) is NotesEnvironment]


class TestEnd:
    def test_the_server_ends_in_order_with_agents_on_it(self, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
        app = create_fastapi_app(partial(Notes, gate), NOTES.action, NOTES.observation, max_concurrent_envs=8)
        ready, over = threading.Barrier(4), threading.Event()

        async def stay() -> None:
            async with agent(f"{server.url}/mcp") as session:
                await session.call_tool("count", {})
                await asyncio.to_thread(ready.wait, 60)
                await asyncio.to_thread(over.wait, 60)

        with ThreadPoolExecutor() as pool, caplog.at_level(logging.WARNING):
            with RunningServer(app, timeout_graceful_shutdown=50) as server:
                staying = [pool.submit(asyncio.run, stay()) for _ in range(3)]
                ready.wait(60)
                before = time.monotonic()
            took_s = time.monotonic() - before
            over.set()
            [one.exception(60) for one in staying]
        assert took_s < 30, "it waited for the agents' streams"
        assert gate.calls.count("close") == 3
        ours = [record for record in caplog.records if record.levelno >= logging.ERROR and record.thread is not None]
        assert not [record for record in ours if "server" in record.name or record.name.startswith("uvicorn")]

    def test_an_application_may_be_served_again(self) -> None:
        app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2)
        for _ in range(2):
            with RunningServer(app) as server, server.http() as http:
                bare = BareAgent(http)
                bare.connect()
                with http.stream("GET", "/mcp", headers=bare.headers) as stream:
                    assert stream.status_code == 200
                    assert "result" in bare.call("add", amount=1)
