"""An environment and its client written with names that our package and the public one both have."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

UNLUCKY = 13


class Add(Action):
    """A number to add, and how many letters to send back beside the total."""

    number: int
    letters: int = 0


class Total(Observation):
    """The sum so far."""

    total: int
    text: str = ""


class CounterState(State):
    """The sum so far, and the seed that the episode was given."""

    total: int = 0
    seed: int | None = None


class CounterEnvironment(Environment[Add, Total, CounterState]):
    """Counts to ten. Half of each number is its reward; thirteen raises."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = CounterState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, start: int = 0, **kwargs: Any) -> Total:
        self._state = CounterState(episode_id=episode_id, total=start, seed=seed)
        return Total(total=start, metadata={"seed": seed, **kwargs})

    def step(self, action: Add, timeout_s: float | None = None, **kwargs: Any) -> Total:
        if action.number == UNLUCKY:
            raise ValueError("thirteen is unlucky")
        self._state.step_count += 1
        self._state.total += action.number
        return Total(
            total=self._state.total,
            text="x" * action.letters,
            reward=action.number / 2,
            done=self._state.total >= 10,
        )

    @property
    def state(self) -> CounterState:
        return self._state


class CounterEnv(EnvClient[Add, Total, CounterState]):
    """A client with its three hooks written by hand, as the public package asks for."""

    def _step_payload(self, action: Add) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Total]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = Total(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> CounterState:
        return CounterState(**payload)
