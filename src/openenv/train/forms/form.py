"""Form of a conversation: the look of results and actions to a model, and the meaning of its answers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content

__all__ = ["Form"]


class Form(ABC):
    """Form of results, actions and answers, the same in renderers, behind an address, in recordings and in Inspect.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty where actions are texts.
    """

    tools: list[dict[str, Any]]

    @abstractmethod
    def shown(self, result: StepResult[Any]) -> Content:
        """Return the content of a result that a model is shown."""

    @abstractmethod
    def opening(self, observation: Content) -> Content:
        """Return the user's first content, with that of the reset."""

    @abstractmethod
    def move(self, action: Any) -> Move:
        """Return the move of an action."""

    @abstractmethod
    def read(self, answer: Message) -> list[Move]:
        """Return the moves in an assistant's message, in their order; with none the agent ends the episode."""

    @abstractmethod
    def answer(self, move: Move, turn: int) -> Message:
        """Return the assistant's message that makes a move, the episode's ``turn``-th from 0."""

    @abstractmethod
    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        """Return the messages after an assistant's; ``failed`` if the environment failed at a move after these."""

    def opening_messages(self, observation: Content | None, system_prompt: str | None = None) -> list[Message]:
        """Return the messages before the first answer; ``observation`` is ``None`` where the reset failed."""
        system: list[Message] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
        return system if observation is None else [*system, {"role": "user", "content": self.opening(observation)}]

    def conversation(
        self, observation: Content | None, results: Sequence[MoveResult], system_prompt: str | None = None
    ) -> list[Message]:
        """Return the messages of an episode with one move in each answer; ``observation`` as in `opening_messages`."""
        messages = self.opening_messages(observation, system_prompt)
        for turn, result in enumerate(results):
            answer = self.answer(result.move, turn)
            messages += [answer, *self.replies(answer, [result])]
        return messages
