"""Tools of actions whose class is a ``RootModel``, on every way to a server."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from tests.core.wire.test_actions import Echo
from tests.support.environments.moves import AnyMove, Go, Look, MapEnvironment
from tests.support.servers import RunningServer

from openenv import GenericEnvClient, client_for
from openenv.core import MCPToolClient
from openenv.core.env_server.app import create_app, create_fastapi_app

MapEnv = client_for(MapEnvironment)
Isolation = Literal["none", "process"]


@pytest.fixture(scope="module", params=["none", "process"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    isolation: Isolation = request.param
    with RunningServer(create_app(MapEnvironment, isolation=isolation)) as server:
        yield server.url


def test_each_member_is_a_tool_with_its_fields(url: str) -> None:
    with MCPToolClient(base_url=url).sync() as env:
        tools = {tool.name: tool.input_schema["properties"] for tool in env.list_tools()}
        assert {name: list(fields) for name, fields in tools.items()} == {"go": ["way"], "stay": [], "look": ["far"]}
        assert tools["go"]["way"]["description"] == "where to"
        env.reset()
        assert env.call_tool("go", way="left")["text"] == '{"kind":"go","way":"left"}'
        assert env.call_tool("look", far=2)["done"]


@pytest.mark.parametrize("action", [AnyMove(Look(far=1)), Look(far=1)])
def test_a_typed_client_sends_the_whole_or_a_member(url: str, action: Any) -> None:
    with MapEnv(base_url=url).sync() as env:
        env.reset()
        assert env.step(action).observation.text == '{"kind":"look","far":1}'


def test_fields_make_the_whole(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset()
        assert env.step({"kind": "go", "way": "right"}).observation["text"] == Go(way="right").model_dump_json(
            exclude={"metadata"}
        )


def test_a_class_that_stands_for_several_by_its_own_methods() -> None:
    with RunningServer(create_fastapi_app(Echo)) as server, MCPToolClient(base_url=server.url).sync() as env:
        assert [(tool.name, list(tool.input_schema["properties"])) for tool in env.list_tools()] == [
            ("say", ["text"]),
            ("end", []),
        ]
        env.reset()
        env.call_tool("say", text="hello")
        env.call_tool("end")
