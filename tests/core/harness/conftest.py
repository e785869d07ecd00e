"""Sessions over a real server of counters, for harnesses."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericEnvClient
from openenv.core.harness import Message, StepEnvSessionAdapter
from openenv.core.wire.mcp_types import Tool

ADD = Tool(name="add", description="Add to the total.", input_schema={"type": "object"})

OpenSession = Callable[..., StepEnvSessionAdapter]


class CountedClient(GenericEnvClient):
    """Counts how often it is closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def action_of(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"amount": arguments["amount"]}


def messages_of(result: Any, task: Any) -> list[Message]:
    return [{"role": "user", "content": f"{task}: the total is {result.observation['total']}."}]


@pytest.fixture
def client(counter_server: RunningServer) -> CountedClient:
    return CountedClient(base_url=counter_server.url)


@pytest.fixture
def open_session(client: CountedClient) -> OpenSession:
    """Open the client's session with the tool ``add``; arguments replace or add to those of the adapter."""

    def opened(**arguments: Any) -> StepEnvSessionAdapter:
        given: dict[str, Any] = {"tool_specs": [ADD], "action_builder": action_of}
        return StepEnvSessionAdapter(client, **{**given, "initial_messages_builder": messages_of, **arguments})

    return opened
