"""What the tests of vectors share: a game, and how to show what its slots gave."""

from typing import Any, ClassVar

from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import LegacyOnly, RunningServer

from openenv.core.client_types import StepResult
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import InvalidRequestError, OpenEnvError
from openenv.core.generic_client import GenericEnvClient

ONE = {"amount": 1}
HELD = {"amount": 9}
REFUSED = {"amount": -1}
BREAKING = {"amount": 0}
WIRES = ("v1", "legacy")


class TaskEnvironment(CounterEnvironment):
    """Counts, and shows the task and the seed that it was reset with; there is no level 0."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **task: Any) -> Total:
        if task.get("level") == 0:
            raise InvalidRequestError("There is no level 0.")
        first = super().reset(seed, episode_id)
        return first.model_copy(update={"metadata": {**first.metadata, **task}})


def play(vector: Any, *calls: Any) -> list[Any]:
    """What each slot shows after some steps: its total, its error's class, or None."""
    results = vector.reset()
    for actions in calls:
        results = vector.step(actions)
    return shown(results)


def shown(results: list[Any]) -> list[Any]:
    return [type(result) if isinstance(result, OpenEnvError) else result and total(result) for result in results]


def total(result: Any) -> int:
    number: int = result.observation["total"]
    return number


def make_server(
    wire: str, environment: Any = CounterEnvironment, action: Any = Add, observation: Any = Total, **settings: Any
) -> RunningServer:
    """A server that knows both wires, or the legacy one only."""
    settings.setdefault("max_concurrent_envs", 64)
    app = create_fastapi_app(environment, action, observation, **settings)
    if wire == "legacy":
        app.add_middleware(LegacyOnly)
    return RunningServer(app)


class CountingClient(GenericEnvClient):
    """Counts the results that have come, for all slots together: each has an instance of its own."""

    come: ClassVar[int] = 0

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        CountingClient.come += 1
        return super()._parse_result(payload)
