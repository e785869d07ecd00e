"""The environment that is served by both packages: a step that costs next to nothing.

It uses only names that both packages have.
"""

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    """A message."""

    message: str


class EchoObservation(Observation):
    """The message, back again."""

    text: str = ""


class EchoEnvironment(Environment[EchoAction, EchoObservation, State]):
    """Sends each message back; a tenth of its length is the reward."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> EchoObservation:
        """Start an episode."""
        self._state = State(episode_id=episode_id)
        return EchoObservation(text="ready", reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        """Echo the message."""
        self._state.step_count += 1
        return EchoObservation(text=action.message, reward=0.1 * len(action.message))

    @property
    def state(self) -> State:
        """The steps so far."""
        return self._state


class NonBlockingEchoEnvironment(EchoEnvironment):
    """The same, declared to never block; the public package has no such notion and takes no notice."""

    BLOCKING = False
