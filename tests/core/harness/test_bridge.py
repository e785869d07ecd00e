"""A session's tools by MCP's requests."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.harness.conftest import OpenSession

from openenv.core.harness import SessionMCPBridge


@pytest.fixture
def bridge(open_session: OpenSession) -> Iterator[SessionMCPBridge]:
    session = open_session()
    yield SessionMCPBridge(session)
    session.close()


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}


def call(name: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return request("tools/call", {"name": name, "arguments": arguments})


def test_the_list_of_tools(bridge: SessionMCPBridge) -> None:
    tool = {"name": "add", "description": "Add to the total.", "inputSchema": {"type": "object"}}
    assert bridge.handle_request(request("tools/list")) == {"jsonrpc": "2.0", "id": 5, "result": {"tools": [tool]}}


def test_a_call(bridge: SessionMCPBridge) -> None:
    result = bridge.handle_request(call("add", {"amount": 10}))["result"]
    assert (result["done"], result["metadata"]["reward"], result["error"]) == (True, 10, None)
    assert result["data"]["observation"]["total"] == 10


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        ({"id": 5, "method": "tools/list"}, -32600, "Invalid Request"),
        (request("resources/list"), -32601, "Method not found"),
        (call("sub", {}), -32601, "There is no tool 'sub'. Tools: add"),
        (request("tools/call"), -32602, "params.name must be the name of a tool"),
        (call(7, {}), -32602, "params.name must be the name of a tool"),
        (call("step", {}), -32602, "'step' is reserved for the trainer"),
        (call("add", {}), -32602, "The arguments of 'add' make no action: KeyError: 'amount'"),
    ],
)
def test_a_request_that_gets_an_error(bridge: SessionMCPBridge, bad: dict[str, Any], code: int, message: str) -> None:
    response = bridge.handle_request(bad)
    assert (response["id"], response["error"]["code"], response["error"]["message"]) == (5, code, message)
    assert bridge.handle_request(call("add", {"amount": 1}))["result"]["data"]["observation"]["total"] == 1


def test_an_action_that_the_environment_rejects_is_the_caller_s_doing(bridge: SessionMCPBridge) -> None:
    error = bridge.handle_request(call("add", {"amount": -1}))["error"]
    assert error["code"] == -32602
    assert "Expected a positive amount, got -1." in error["message"]


def test_an_environment_that_fails_is_an_internal_error(bridge: SessionMCPBridge) -> None:
    error = bridge.handle_request(call("add", {"amount": 0}))["error"]
    assert error["code"] == -32603
    assert "kaboom" in error["message"]
