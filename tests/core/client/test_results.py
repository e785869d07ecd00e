"""What clients' methods return where they have blocked: it may be awaited, and is otherwise what it always was."""

import asyncio
import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, RootModel
from tests.support.environments.common import Total
from tests.support.servers import RunningServer

from openenv import Environment, ToolResult, tool
from openenv.core.client.blocking import blocks_outside_loop
from openenv.core.client.client import EnvClient
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.mcp import MCPClientBase, MCPToolClient
from openenv.core.client.results import awaitable
from openenv.core.client.tools import ToolClient
from openenv.core.client.typed import TypedEnvClient
from openenv.core.client.vector import SyncVectorEnv
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import State

TASKS = [{"goal": 3}]
# Further arguments of methods that need some.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "call_tool": {"tool_name": "count"},
    "get_tool": {"name": "count"},
    "has_tool": {"name": "count"},
    "task": {"split": "train", "index": 0},
    "task_range": {"split": "train", "start": 0, "stop": 1},
    "vector": {"count": 2},
}
# What Python has no class below of, so that asyncio refuses it with an error of its own.
UNCHANGEABLE = (None, True, False)


class Position(State):
    """Where an episode stands."""

    seen: dict[str, int]


class Board(Environment[CallToolAction, Total, Position]):
    """Has a picture, a list of tasks, a tool and everything else that clients ask for."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.count_so_far = 0

    def reset(self, goal: int = 1) -> Total:
        self.count_so_far = 0
        return Total(total=0)

    @tool
    def count(self, by: int = 1) -> ToolResult:
        """Count.

        Args:
            by: How far.
        """
        self.count_so_far += by
        return ToolResult({"total": self.count_so_far}, reward=1.0)

    def list_splits(self) -> list[str]:
        return ["train"]

    def list_tasks(self, split: str) -> list[dict[str, int]]:
        return TASKS

    def get_task(self, split: str, index: int) -> dict[str, int]:
        return TASKS[index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, int]]:
        return TASKS[start:stop]

    def render(self) -> str:
        return f"at {self.count_so_far}"

    @property
    def state(self) -> Position:
        return Position(step_count=self.count_so_far, seen={"cells": self.count_so_far})


class BoardEnv(TypedEnvClient[CallToolAction, Total, Position]):
    """A client that knows the class of the state."""


class TrainerEnv(ToolClient[CallToolAction, Total, Position]):
    """A client of trainers."""

    def _result_text(self, result: Any) -> str:
        return str(result.reward)


class CountingEnv(GenericEnvClient):
    """A client with a method of its own."""

    @blocks_outside_loop
    async def counted(self) -> tuple[int, str]:
        state = await self.state()
        return state["step_count"], "steps"


CLIENTS = [BoardEnv, TrainerEnv, CountingEnv, GenericEnvClient, MCPClientBase, MCPToolClient]


def subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def methods(cls: type) -> list[str]:
    """List the methods that a program awaits."""
    listed = [name for name in dir(cls) if not name.startswith(("_", "from_")) and name not in ("sync", "take_tasks")]
    return [name for name in listed if callable(getattr(cls, name)) and not isinstance(getattr(cls, name), type)]


def run_until_complete(call: Any) -> Any:
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(call)


async def with_a_limit(call: Any) -> Any:
    return await asyncio.wait_for(call, 60)


async def as_a_task(call: Any) -> Any:
    return await asyncio.create_task(call)


async def gathered(call: Any) -> Any:
    first, second = await asyncio.gather(call, call)
    assert first is second
    return first


WAYS: dict[str, Callable[[Any], Any]] = {
    "run": asyncio.run,
    "run_until_complete": run_until_complete,
    "wait_for": lambda call: asyncio.run(with_a_limit(call)),
    "create_task": lambda call: asyncio.run(as_a_task(call)),
    "gather": lambda call: asyncio.run(gathered(call)),
}


@pytest.fixture(scope="module")
def board() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(Board, CallToolAction, max_concurrent_envs=64)) as server:
        yield server


@pytest.fixture
def client(request: pytest.FixtureRequest, board: RunningServer) -> Iterator[Any]:
    made: Any = request.param(
        base_url=board.url, mode="production" if issubclass(request.param, MCPClientBase) else None
    )
    made.reset()
    yield made
    made.close()


def action_of(client: Any) -> Any:
    action = CallToolAction(tool_name="count", arguments={})
    return action.model_dump() if isinstance(client, GenericEnvClient) else action


def call(client: Any, name: str) -> Any:
    """Call a method, where no loop runs."""
    arguments = ARGUMENTS.get(name, {})
    if name == "step":
        return client.step(action_of(client))
    if name == "call_tool":
        return client.call_tool(arguments["tool_name"])
    return getattr(client, name)(**arguments)


class TestEveryMethod:
    def test_all_clients_are_tried(self) -> None:
        ours = {cls for cls in subclasses(EnvClient) if cls.__module__.startswith("openenv.core.client.")}
        tried = {base for cls in CLIENTS for base in cls.__mro__}
        assert ours <= tried

    @pytest.mark.parametrize(
        ("client", "name"), [(cls, name) for cls in CLIENTS for name in methods(cls)], indirect=["client"]
    )
    def test_what_it_returned_may_be_awaited(self, client: Any, name: str) -> None:
        for run in WAYS.values():
            result = call(client, name)
            if any(result is each for each in UNCHANGEABLE):
                assert name == "has_tool"
                continue
            expected = None if name in ("close", "disconnect") else result
            assert run(result) is expected

    @pytest.mark.parametrize("name", methods(SyncVectorEnv))
    def test_of_a_vector_too(self, board: RunningServer, name: str) -> None:
        client: Any = GenericEnvClient(base_url=board.url)
        vector = asyncio.run(client.vector(1))
        vector.reset()
        for run in WAYS.values():
            result = vector.step([action_of(client)]) if name == "step" else getattr(vector, name)()
            assert run(result) is (None if name == "close" else result)
        client.close()

    def test_calls_of_several_clients_are_gathered(self, board: RunningServer) -> None:
        async def gathered() -> list[Any]:
            return await asyncio.gather(*(client.state() for client in clients), *states)

        clients: list[Any] = [GenericEnvClient(base_url=board.url) for _ in range(2)]
        for client in clients:
            client.reset()
        clients[0].step(action_of(clients[0]))
        states = [client.state() for client in clients]

        async def of_earlier_calls() -> list[Any]:
            return await asyncio.gather(*states)

        first, second = asyncio.run(of_earlier_calls())
        assert (first["step_count"], second["step_count"]) == (1, 0)
        for client in clients:
            client.close()

    def test_the_facade_gives_plain_values(self, board: RunningServer) -> None:
        with GenericEnvClient(base_url=board.url).sync() as client:
            client.reset()
            assert type(client.state()) is dict
            assert type(client.tasks()) is list
            assert type(client.schemas()) is dict

    async def test_in_a_loop_values_are_plain(self, board: RunningServer) -> None:
        async with BoardEnv(base_url=board.url) as client:
            await client.reset()
            assert type(await client.state()) is Position


class Words(RootModel[list[str]]):
    """A model whose value is no dict."""


class Frozen(BaseModel, frozen=True):
    """A model that can't be changed."""

    name: str = "a"


@dataclass
class Point:
    """An object that is no model."""

    x: int = 1


@dataclass(frozen=True, slots=True)
class Slotted:
    """An object without a dict."""

    x: int = 1


class Side(Enum):
    """An enumeration, whose members keep their class."""

    LEFT = "left"


VALUES = [
    {"a": [1, {"b": 2}]},
    [],
    (1, "2"),
    "text",
    b"bytes",
    7,
    -0.5,
    Position(seen={"cells": 1}),
    Words(["a"]),
    Frozen(),
    Point(),
    Slotted(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
class TestAwaitable:
    def test_it_is_what_it_was(self, value: Any) -> None:
        plain = copy.copy(value)
        result = awaitable(value)
        assert asyncio.run(result) is result
        assert awaitable(result) is result
        assert result.__class__ is type(plain)
        assert isinstance(result, type(plain))
        assert result == plain
        assert plain == result
        assert repr(result) == repr(plain)
        assert bool(result) is bool(plain)

    def test_it_is_copied_and_pickled_as_what_it_was(self, value: Any) -> None:
        plain = copy.deepcopy(value)
        result = awaitable(value)
        assert type(pickle.loads(pickle.dumps(result))) is plain.__class__
        for same in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
            assert same == plain
            assert isinstance(same, plain.__class__)


def test_a_model_writes_what_it_wrote() -> None:
    plain = Position(episode_id="e", step_count=2, seen={"cells": 1})
    result = awaitable(plain.model_copy())
    assert result.model_dump() == plain.model_dump()
    assert result.model_dump_json() == plain.model_dump_json()
    assert result.model_copy(update={"step_count": 3}).step_count == 3
    assert Position.model_validate(result) == plain
    assert json.dumps(awaitable({"a": 1})) == '{"a": 1}'


@pytest.mark.parametrize("value", [None, True, False, Side.LEFT, Side, 1j, len, ...], ids=repr)
def test_what_has_no_class_below_its_own_stays_as_it_is(value: Any) -> None:
    cls = type(value)
    assert awaitable(value) is value
    assert type(value) is cls
