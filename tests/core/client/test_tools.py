"""Clients that trainers take as environments: what a trainer finds on them, and that they stay clients."""

import asyncio
import inspect
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, Total

from openenv.core.client.results import StepResult
from openenv.core.client.sync import SyncEnvClient
from openenv.core.client.tools import EPISODE_OVER, HiddenMethod, ToolClient, task_columns
from openenv.core.client.typed import TypedEnvClient
from openenv.core.env_server.types import State
from openenv.core.exceptions import ClientModeError, EpisodeOrderError, RequestRejectedError, ServerExecutionError


class CounterEnv(ToolClient[Add, Total, State]):
    """A counter that models can add to."""

    def add(self, amount: int) -> str:
        """Add to the total.

        Args:
            amount: How much.
        """
        return self._act(amount=amount)

    def _result_text(self, result: StepResult[Total]) -> str:
        return f"total {result.observation.total}"


class CountingEnv(CounterEnv):
    """Overrides what clients have, as users do."""

    steps = 0

    def step(self, action: Add, **kwargs: Any) -> Any:
        """Count the steps."""
        self.steps += 1
        return super().step(action, **kwargs)

    def double(self) -> str:
        """Add two."""
        return self._act(amount=2)


def found(client_class: type) -> set[str]:
    """Name the public functions that a trainer finds."""
    return {name for name, _ in inspect.getmembers(client_class, inspect.isfunction) if not name.startswith("_")}


ROW = {"prompt": [{"role": "user", "content": "Count."}], "seed": 3, "answer": "unknown to the environment"}


def test_only_tools_and_reset_are_found() -> None:
    assert found(CounterEnv) == {"add", "reset"}
    assert found(CountingEnv) == {"add", "double", "reset"}
    assert {"step", "close", "sync"} <= found(TypedEnvClient), "others stay as they are"


def test_hidden_methods_are_methods_otherwise() -> None:
    assert callable(CounterEnv.step)
    assert CounterEnv.step.__name__ == "step"
    assert CounterEnv.step.__doc__ == TypedEnvClient.step.__doc__
    assert inspect.signature(CounterEnv.step) == inspect.signature(TypedEnvClient.step)
    assert {"step", "close"} <= set(dir(CounterEnv))


def test_a_trainer_plays(serve: Serve) -> None:
    client: Any = CounterEnv(base_url=serve().url)
    try:
        assert "start" + client.reset(**ROW) == "starttotal 0"
        assert client.add(amount=4) == "total 4"
        assert client.state().step_count == 1
        assert client.add(6) == "total 10"
        assert client.reset(**ROW) == "total 0", "the same session goes on"
        assert client.add(amount=1) == "total 1"
    finally:
        client.close()


def test_a_trainer_in_a_running_event_loop_plays_too(serve: Serve) -> None:
    """As in a notebook."""

    async def play() -> list[Any]:
        client: Any = CounterEnv(base_url=server.url)
        shown = [client.reset(**ROW), client.add(amount=1), client.add(amount=9), client.add(amount=1)]
        client.sync().close()
        return shown

    server = serve()
    assert asyncio.run(play()) == ["total 0", "total 1", "total 10", EPISODE_OVER]


def test_after_the_end_nothing_is_sent(serve: Serve) -> None:
    client: Any = CountingEnv(base_url=serve().url)
    try:
        client.reset(**ROW)
        assert client.add(amount=10) == "total 10"
        assert client.add(amount=1) == EPISODE_OVER
        assert client.add(amount=-1) == EPISODE_OVER
        assert client.steps == 1
        with pytest.raises(EpisodeOrderError):
            client.step(Add(amount=1))  # the client's own step asks the server
        client.reset()
        assert client.double() == "total 2"
    finally:
        client.close()


def test_a_refusal_is_told_and_the_episode_goes_on(serve: Serve) -> None:
    client: Any = CountingEnv(base_url=serve().url)
    try:
        client.reset(**ROW)
        assert client.add(amount="many").startswith("amount: Input should be a valid integer")
        assert client.steps == 0
        with pytest.raises(RequestRejectedError) as refused:
            client.step(Add(amount=-1))
        assert client.add(amount=-1) == refused.value.message
        assert client.add(amount=2) == "total 2"
    finally:
        client.close()


def test_a_failure_is_an_error(serve: Serve) -> None:
    client: Any = CounterEnv(base_url=serve().url)
    try:
        with pytest.raises(EpisodeOrderError):
            client.add(amount=1)
        client.reset(**ROW)
        with pytest.raises(ServerExecutionError):
            client.add(amount=0)
    finally:
        client.close()


async def test_without_a_prompt_it_is_the_client_that_it_was(serve: Serve) -> None:
    async with CounterEnv(base_url=serve().url) as client:
        result = await client.reset(seed=3)
        assert result.observation == Total(total=0, metadata={"seed": 3})
        assert (await client.step(Add(amount=4))).observation.total == 4
        other = await client.new_session()
        assert isinstance(other, CounterEnv)
        assert (await other.reset()).observation.total == 0
        assert (await client.state()).step_count == 1
        with pytest.raises(ClientModeError):
            client.add(amount=1)


def test_its_facade_and_its_blocking_form_too(serve: Serve) -> None:
    server = serve()
    with CounterEnv(base_url=server.url).sync() as facade:
        assert isinstance(facade, SyncEnvClient)
        assert facade.reset(seed=1).observation.total == 0
        assert facade.step(Add(amount=2)).observation.total == 2
        assert facade.add(amount=3) == "total 5"
        with pytest.raises(TypeError, match="Expected Add"):
            facade.step({"amount": 1})  # type: ignore[arg-type]
    with CounterEnv(base_url=server.url) as client:
        blocking: Any = client
        assert CounterEnv.reset(blocking, seed=1).observation.metadata == {"seed": 1}  # type: ignore[attr-defined]
        assert CounterEnv.step(blocking, Add(amount=2)).observation.total == 2  # type: ignore[attr-defined]


def test_the_columns_of_a_trainer_are_left_out() -> None:
    row = {**ROW, "environment": "counter", "images": [object()], "image": None, "empty": None, "word": object()}

    assert task_columns(row) == {"seed": 3, "answer": "unknown to the environment"}
    assert task_columns({"length": 4, "weights": [0.5], "board": {"a": 1}, "hard": False}) == {
        "length": 4,
        "weights": [0.5],
        "board": {"a": 1},
        "hard": False,
    }


def test_a_class_must_say_what_models_are_told() -> None:
    class Silent(ToolClient[Add, Total, State]):
        pass

    with pytest.raises(TypeError, match="_result_text"):
        Silent(base_url="http://localhost:1")  # type: ignore[abstract]


def test_an_abstract_method_stays_one_when_it_is_hidden() -> None:
    assert getattr(HiddenMethod(ToolClient._result_text), "__isabstractmethod__", False)
