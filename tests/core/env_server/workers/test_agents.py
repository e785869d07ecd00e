"""Agents on a server with several workers: whatever worker a request reaches, it finds its session."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from tests.support.mcp_agents import BareAgent
from tests.support.servers import ServerProcess, Wire


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("worker_server.py", "2", "64", "5") as server:
        yield server


def client(server: ServerProcess) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, timeout=60, verify=False)


def rpc(server: ServerProcess, method: str, **params: Any) -> Any:
    """Send a request on a connection of its own, which either worker may get."""
    with client(server) as http:
        return http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()


def worker_of(name: str) -> str:
    """The worker that made a session or a connection, by what it is called."""
    return name.partition(".")[0]


def shown(answer: Any) -> Any:
    return answer["result"]["structuredContent"]


def test_an_agent_finds_its_session_on_every_connection(server: ServerProcess) -> None:
    agents: list[tuple[BareAgent, list[int]]] = []
    with ExitStack() as connections:  # each new one goes to the worker that has the fewest
        while len({worker_of(bare.headers["Mcp-Session-Id"]) for bare, _ in agents}) < 2:
            bare = BareAgent(connections.enter_context(client(server)))
            bare.connect()
            agents.append((bare, [shown(bare.call("do", amount=1))["process"]]))
    for total in (2, 3, 4):
        for bare, processes in agents:
            with client(server) as bare.http:
                answer = shown(bare.call("do", amount=1))
                assert answer["total"] == total
                processes.append(answer["process"])
    assert all(len(set(processes)) == 1 for _, processes in agents)
    for bare, _ in agents:
        with client(server) as http:
            assert http.delete("/mcp", headers=bare.headers).status_code == 200
        with client(server) as bare.http:
            assert bare.post(bare.request("ping")).status_code == 404


def test_a_stream_is_held_by_the_worker_of_its_agent(server: ServerProcess) -> None:
    with client(server) as http, client(server) as other:
        bare = BareAgent(http)
        bare.connect()
        with other.stream("GET", "/mcp", headers=bare.headers) as stream, client(server) as third:
            assert stream.status_code == 200
            assert third.get("/mcp", headers=bare.headers).status_code == 409
        http.delete("/mcp", headers=bare.headers)


def test_a_session_that_the_body_names(server: ServerProcess) -> None:
    made: list[str] = []
    with ExitStack() as connections:
        while len(set(map(worker_of, made))) < 2:
            http = connections.enter_context(client(server))
            create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            made.append(http.post("/mcp", json=create).json()["result"]["session_id"])
    for total in (1, 2, 3):
        for session_id in made:
            call = {"name": "do", "arguments": {"amount": 1}, "session_id": session_id}
            assert rpc(server, "tools/call", **call)["result"]["data"]["total"] == total
    with Wire(f"ws://127.0.0.1:{server.port}/ws?session_id={made[0]}") as wire:
        assert wire.state()["data"]["step_count"] == 3
    for session_id in made:
        assert rpc(server, "openenv/session/close", session_id=session_id)["result"]["closed"] is True
        assert rpc(server, "openenv/session/close", session_id=session_id)["error"]["code"] == -32602


def test_an_agent_in_a_session_of_another_worker(server: ServerProcess) -> None:
    made = [rpc(server, "openenv/session/create")["result"]["session_id"] for _ in range(2)]
    for session_id in made:
        rpc(server, "tools/call", name="do", arguments={"amount": 5}, session_id=session_id)
        with client(server) as http:
            bare = BareAgent(http, f"/mcp?session_id={session_id}")
            bare.connect()
            assert shown(bare.call("do", amount=1))["total"] == 6
            http.delete("/mcp", headers=bare.headers)
        rpc(server, "openenv/session/close", session_id=session_id)


def test_a_session_of_a_worker_that_there_is_not(server: ServerProcess) -> None:
    for name in ("7.abc", "x.abc", ".abc", "0.abc"):
        assert rpc(server, "tools/list", session_id=name)["error"]["code"] == -32602
        with client(server) as http:
            bare = BareAgent(http)
            bare.headers["Mcp-Session-Id"] = name
            assert bare.post(bare.request("ping")).status_code == 404
