"""The WebSocket ``/mcp``."""

from functools import partial
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Gate, GatedEnvironment, SingleSessionEnvironment
from tests.support.servers import RunningServer, Wire, eventually


def ask(wire: Wire, method: str, **params: Any) -> dict[str, Any]:
    return wire.ask({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def add(wire: Wire, amount: int) -> dict[str, Any]:
    return ask(wire, "tools/call", name="add", arguments={"amount": amount})


class TestSession:
    def test_a_socket_has_one_as_long_as_it_is_open(self, counter_server: RunningServer) -> None:
        with counter_server.wire("/mcp") as wire, counter_server.wire("/mcp") as other:
            assert [add(wire, amount)["result"]["data"]["total"] for amount in (1, 2)] == [1, 3]
            assert add(other, 5)["result"]["data"]["total"] == 5
            assert counter_server.sessions.active_sessions == 2
        counter_server.wait_for_sessions(0)

    def test_it_is_named_but_not_to_be_closed(self, counter_server: RunningServer) -> None:
        with counter_server.wire("/mcp") as wire, counter_server.http() as http:
            session_id = ask(wire, "openenv/session/create")["result"]["session_id"]
            assert ask(wire, "openenv/session/close", session_id=session_id)["error"]["code"] == -32600
            add(wire, 1)
            called = {"name": "add", "arguments": {"amount": 1}, "session_id": session_id}
            over_http = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called})
            assert over_http.json()["result"]["data"]["total"] == 2

    def test_it_closes_those_that_others_made(self, counter_server: RunningServer) -> None:
        with counter_server.wire("/mcp") as wire, counter_server.http() as http:
            made = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}).json()
            assert ask(wire, "openenv/session/close", **made["result"])["result"]["closed"] is True
            error = ask(wire, "openenv/session/close")["error"]
            assert (error["code"], error["message"]) == (-32602, "Invalid params - 'session_id' is required")

    def test_no_place_is_told_in_one_frame(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.wire("/mcp") as first, server.wire("/mcp") as second:
            add(first, 1)
            told = second.receive()
            assert (told["id"], told["error"]["code"]) == (None, -32000)
            assert told["error"]["data"] == {"active_sessions": 1, "max_sessions": 1}

    def test_one_that_was_cut_in_the_middle_of_a_call_ends(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        wire = server.wire("/mcp")
        call = {"name": "add", "arguments": {"amount": 9}}
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        gate.wait_until_entered()
        wire.cut()
        server.wait_for_sessions(0)
        gate.opened.set()
        eventually(lambda: gate.calls[-1] == "close", "its environment is closed")


class TestFrames:
    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            ("not json", "Parse error: Expecting value: line 1 column 1 (char 0)"),
            ("[1]", "Parse error: Expected one request, got an array."),
            (b"\x00", "Parse error: Expected a text frame with JSON, got a binary frame."),
        ],
    )
    def test_what_is_no_json(self, counter_server: RunningServer, frame: Any, message: str) -> None:
        with counter_server.wire("/mcp") as wire:
            error = {"code": -32700, "message": message, "data": None}
            assert wire.ask(frame) == {"jsonrpc": "2.0", "id": None, "error": error}
            assert add(wire, 1)["result"]["data"]["total"] == 1

    def test_what_is_no_request(self, counter_server: RunningServer) -> None:
        with counter_server.wire("/mcp") as wire:
            assert wire.ask({})["error"]["code"] == -32600
            assert wire.ask({"type": "reset"})["error"]["code"] == -32600
            for method in ("initialize", "reset", "step", "state", "close"):
                assert ask(wire, method)["error"]["message"] == f"Method not found: {method}"

    def test_limits(self, serve: Serve) -> None:
        with serve(max_message_size_mb=0.001, max_messages_per_s=3).wire("/mcp") as wire:
            assert wire.ask(" " * 2000)["error"]["data"]["code"] == "TOO_LARGE"
            codes = [ask(wire, "tools/list").get("error", {}).get("data", {}).get("code") for _ in range(5)]
            assert codes[0] is None
            assert codes[-1] == "RATE_LIMITED"

    def test_in_production(self, serve: Serve) -> None:
        with serve(mode="production").wire("/mcp") as wire:
            assert add(wire, 4)["result"]["data"] == {"total": 4, "done": False}
