"""Form of a conversation: the look of results and actions to a model, and the meaning of its answers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, joined

__all__ = ["Form", "prompt_messages"]


class Form(ABC):
    """Form of results, actions and answers, the same in renderers, behind an address, in recordings and in Inspect.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty where actions are texts.
        prompt: The messages to whose last one the first observation is added, where an episode has none of its own.
    """

    tools: list[dict[str, Any]]
    prompt: Sequence[Message]

    @abstractmethod
    def shown(self, result: StepResult[Any]) -> Content:
        """Return the content of a result that a model is shown."""

    @abstractmethod
    def opening(self, before: Content, observation: Content) -> Content:
        """Return the content of the user's first message: that of the prompt, and that of the reset."""

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

    def opening_messages(self, observation: Content | None, prompt: Sequence[Message] | None = None) -> list[Message]:
        """Return the messages before the first answer; ``observation`` is ``None`` where the reset failed."""
        *before, last = self.prompt if prompt is None else prompt
        if observation is None:
            return before
        return [*before, {**last, "content": self.opening(last["content"], observation)}]


def prompt_messages(
    goal: str = "", system_prompt: str | None = None, question: Sequence[Message] = ()
) -> list[Message]:
    """Return the messages to whose last one the first observation is added.

    Args:
        goal: Text of the user before everything else; empty for none.
        system_prompt: The first message; ``None`` for none.
        question: Messages of the task's own, the last of which is the user's; empty for none.
    """
    system: list[Message] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    *before, last = question or [{"role": "user", "content": ""}]
    content = joined(f"{goal}\n\n", last["content"]) if goal else last["content"]
    return [*system, *before, {**last, "content": content}]
