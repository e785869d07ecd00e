"""The form of a conversation: how results and actions look to a model, and what its answers mean."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content

__all__ = ["Form"]


class Form(ABC):
    """How results and actions look to a model, and what its answers mean.

    Renderers, models behind an address, recordings of players and Inspect's task share it, so that a model is shown the
    same wherever it plays.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty where actions are texts.
    """

    tools: list[dict[str, Any]]

    @abstractmethod
    def shown(self, result: StepResult[Any]) -> Content:
        """Return what a model is shown of a result."""

    @abstractmethod
    def opening(self, observation: Content) -> Content:
        """Return what the user says first, with what is shown of the reset."""

    @abstractmethod
    def move(self, action: Any) -> Move:
        """Write an action as a move."""

    @abstractmethod
    def read(self, answer: Message) -> list[Move]:
        """Return the moves in an assistant's message, in their order; with none the agent ends the episode."""

    @abstractmethod
    def answer(self, move: Move, turn: int) -> Message:
        """Return the assistant's message that makes a move, the episode's ``turn``-th from 0."""

    @abstractmethod
    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        """Return the messages that follow an assistant's message.

        Args:
            answer: The assistant's message.
            results: The results of its moves.
            failed: Whether the environment failed at the move behind these.
        """

    def opening_messages(self, observation: Content | None, system_prompt: str | None = None) -> list[Message]:
        """Return the messages before the first answer.

        Args:
            observation: What is shown of the reset; ``None`` where it failed.
            system_prompt: The first message; ``None`` for none.
        """
        system: list[Message] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
        return system if observation is None else [*system, {"role": "user", "content": self.opening(observation)}]

    def conversation(
        self, observation: Content | None, results: Sequence[MoveResult], system_prompt: str | None = None
    ) -> list[Message]:
        """Return the messages of an episode in which each answer had one move.

        Args:
            observation: What is shown of the reset; ``None`` where it failed.
            results: The moves and their results.
            system_prompt: The first message; ``None`` for none.
        """
        messages = self.opening_messages(observation, system_prompt)
        for turn, result in enumerate(results):
            answer = self.answer(result.move, turn)
            messages += [answer, *self.replies(answer, [result])]
        return messages
