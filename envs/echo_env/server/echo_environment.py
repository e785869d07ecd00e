"""The echo environment: the smallest one that does everything an environment does, by actions and by tools."""

from typing import Any, ClassVar
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tools import tool
from openenv.core.env_server.types import State

from ..models import EchoAction, EchoObservation

GREETING = "Echo environment ready!"


class EchoEnvironment(Environment[EchoAction, EchoObservation, State]):
    """Says back each message. The reward is a tenth of its length; an episode never ends by itself.

    Agents that call tools may say it by these, which give no reward.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    BLOCKING: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._episode_id: str | None = None
        self._steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> EchoObservation:
        """Start an episode.

        Args:
            seed: Taken as every environment takes it; nothing here is random.
            episode_id: Name of the episode; a new one is made up where there is none.

        Returns:
            The greeting, with reward 0.0.
        """
        self._episode_id = episode_id or str(uuid4())
        self._steps = 0
        return EchoObservation(echoed_message=GREETING, reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        """Say the message back.

        Args:
            action: What to say.

        Returns:
            The message with its length, and a tenth of the length as reward.
        """
        self._steps += 1
        length = len(action.message)
        return EchoObservation(
            echoed_message=action.message,
            message_length=length,
            reward=length / 10,  # 0.1 * 13 would be 1.3000000000000003
            metadata={"original_message": action.message, "step": self._steps},
        )

    @tool
    def echo_message(self, message: str) -> str:
        """Say the message back.

        Args:
            message: The text to echo
        """
        self._steps += 1
        return message

    @tool
    def echo_with_length(self, message: str) -> dict[str, Any]:
        """Say the message back, with its length in characters.

        Args:
            message: The text to echo
        """
        self._steps += 1
        return {"message": message, "length": len(message)}

    @property
    def state(self) -> State:
        """The episode's name and its steps so far."""
        return State(episode_id=self._episode_id, step_count=self._steps)
