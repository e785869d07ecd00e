"""``HTTPEnvClient``, as 0.1 has it: arguments, and what its parameters may be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.servers import RunningServer

from openenv.core import Action, Observation, State, create_app
from openenv.core.client_types import StepResult
from openenv.core.env_client import HTTPEnvClient
from openenv.core.exceptions import ConfigurationError

ActionT = TypeVar("ActionT", bound=Action)
ObservationT = TypeVar("ObservationT", bound=Observation)


class Client(HTTPEnvClient[Climb, Stairs]):
    """Reads and writes by itself, as clients of 0.1 do."""

    def _step_payload(self, action: Climb) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Stairs]:
        return StepResult(Stairs(**payload["observation"]), payload.get("reward"), payload.get("done", False))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class Patient(Client):
    """Has arguments of its own."""

    def __init__(self, base_url: str, *, patience_s: float = 30.0) -> None:
        super().__init__(base_url=base_url, request_timeout_s=patience_s, default_headers={"X-Patience": "long"})


class Heir(Patient):
    """A subclass of a subclass."""


@pytest.mark.parametrize(
    "make",
    [
        Client,
        Patient,
        Heir,
        lambda url: Client(base_url=url, request_timeout_s=30.0, default_headers={"X-A": "b"}),
        lambda url: Client(url, 30.0, {"X-A": "b"}),
        lambda url: Client(url, connect_timeout_s=20.0, message_timeout_s=30.0, headers={"X-A": "b"}),
    ],
)
def test_a_client_of_0_1_plays(make: Callable[[str], Any]) -> None:
    with RunningServer(create_app(StairsEnvironment, Climb, Stairs)) as server, make(server.url).sync() as client:
        client.reset()
        client.step(Climb(move="up"))
        assert client.state().step_count == 1


def test_dataclasses_among_the_parameters_are_refused_where_the_client_is_defined() -> None:
    @dataclass
    class Move(Action):
        steps: int = 0

    @dataclass
    class Seen:
        height: int = 0

    class Open(HTTPEnvClient[ActionT, ObservationT], Generic[ActionT, ObservationT]):
        """Has parameters still."""

    with pytest.raises(ConfigurationError, match=r"Move is a dataclass, as in OpenEnv 0\.1: leave @dataclass out"):
        type("Direct", (HTTPEnvClient,), {"__orig_bases__": (HTTPEnvClient[Move, Stairs],)})
    with pytest.raises(ConfigurationError, match="Seen is a dataclass"):

        class Filled(Open[Climb, Seen]):  # type: ignore[type-var]
            """A subclass of a generic one."""
