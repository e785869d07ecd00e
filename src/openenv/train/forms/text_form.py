"""Conversations in which an answer is the text of one action, and the user's message has its result."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.episodes.episode import Turn
from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.forms.form import Form
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, call_content

__all__ = ["TextForm", "turn_messages"]


class TextForm(Form):
    """Form of actions that are texts of `ActionText`, with instructions before the first observation."""

    def __init__(self, actions: ActionText, instructions: str = "", pixels: Collection[str] = ()) -> None:
        self._actions = actions
        self._instructions = instructions
        self._pixels = pixels
        self.tools = []

    def shown(self, result: StepResult[Any]) -> Content:
        """Return the observation's text, behind its pictures."""
        content = call_content(result, self._pixels)
        if isinstance(content, str):
            return observation_text(result.observation)
        return _with_text(content, text_of(content))

    def opening(self, observation: Content) -> Content:
        """Return the instructions and the observation."""
        text = text_of(observation)
        return _with_text(observation, f"{self._instructions}\n\n{text}" if self._instructions else text)

    def move(self, action: Any) -> Move:
        """Return the action with its text."""
        return Move(self._actions.write(action), action)

    def read(self, answer: Message) -> list[Move]:
        """Return the one move of an answer."""
        return [self.read_text(text_of(answer["content"]))]

    def read_text(self, text: str) -> Move:
        """Return the move of a text, legal or not."""
        reading = self._actions.read(text)
        return Move(text, reading.action, reading.problem)

    def answer(self, move: Move, turn: int) -> Message:
        """Return a message of the move's text."""
        return {"role": "assistant", "content": move.text}

    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        """Return a message of the user with the observation, after the problem if there was one."""
        return [{"role": "user", "content": _next_content(result)} for result in results]


def turn_messages(turns: Iterable[Turn]) -> list[Message]:
    """Return observations and actions in turn, without instructions and without the last action's observation."""
    return [
        {"role": role, "content": text}
        for turn in turns
        for role, text in (("user", turn.observation), ("assistant", turn.action))
    ]


def _next_content(result: MoveResult) -> Content:
    if not result.problem:
        return result.observation
    text = f"That was no legal action: {result.problem}\n\n{text_of(result.observation)}"
    return _with_text(result.observation, text)


def _with_text(content: Content, text: str) -> Content:
    """Return content with another text, behind its pictures."""
    if isinstance(content, str):
        return text
    return [*(block for block in content if block["type"] != "text"), {"type": "text", "text": text}]
