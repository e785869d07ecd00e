"""Conversations in which an answer is the text of one action, and the user's message has its result."""

from collections.abc import Collection, Sequence
from typing import Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.forms.form import Form, prompt_messages
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, call_content, joined

__all__ = ["TextForm"]


class TextForm(Form):
    """Form of actions that are texts of `ActionText`, with instructions before the first observation."""

    def __init__(
        self,
        actions: ActionText,
        instructions: str = "",
        pixels: Collection[str] = (),
        prompt: Sequence[Message] | None = None,
    ) -> None:
        self._actions = actions
        self._instructions = instructions
        self._pixels = pixels
        self.tools = []
        self.prompt = prompt or prompt_messages()

    def shown(self, result: StepResult[Any]) -> Content:
        """Return the observation's text, behind its pictures."""
        content = call_content(result, self._pixels)
        if isinstance(content, str):
            return observation_text(result.observation)
        return _with_text(content, text_of(content))

    def opening(self, before: Content, observation: Content) -> Content:
        """Return the prompt, the instructions as its last line, and the observation."""
        shown, text = text_of(before), text_of(observation)
        if self._instructions:
            lines = filter(None, (shown.removesuffix("\n\n"), self._instructions))
            shown = "\n".join(lines) + "\n\n"
        return _with_text(joined(before, observation), shown + text)

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
