"""Conversations in which an answer calls tools, and messages of the tools have the calls' results."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from openenv.core.client.tools import EPISODE_OVER
from openenv.core.client_types import StepResult
from openenv.core.exceptions import InvalidRequestError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.form import Form, prompt_messages
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, call_content, joined, refusal_text
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["EPISODE_FAILED", "EPISODE_OVER", "ToolForm", "call_message", "call_text", "tool_messages"]

EPISODE_FAILED = "The environment has failed, and the episode is over. No further action is taken."


class ToolForm(Form):
    """Form of actions that are calls; an answer without a call ends the episode, as it does in TRL's own loop."""

    def __init__(
        self, tools: EnvironmentTools, pixels: Collection[str] = (), prompt: Sequence[Message] | None = None
    ) -> None:
        self._tools = tools
        self._pixels = pixels
        self.names = tools.names
        self.tools = tools.schemas()
        self.prompt = prompt or prompt_messages()

    def shown(self, result: StepResult[Any]) -> Content:
        """Return a call's content, or the first observation."""
        return call_content(result, self._pixels)

    def opening(self, before: Content, observation: Content) -> Content:
        """Return the prompt and the observation."""
        return joined(before, observation) if before else observation

    def move(self, action: Any) -> Move:
        """Return a call, whose text is the tool's name and the arguments in JSON."""
        name, arguments = self._tools.call(action)
        return Move(call_text(name, arguments), action, tool=name, arguments=arguments)

    def read(self, answer: Message) -> list[Move]:
        """Return the calls in an answer."""
        functions = [call["function"] for call in answer.get("tool_calls") or ()]
        return [self.call(function["name"], function["arguments"]) for function in functions]

    def call(self, name: str, arguments: Any) -> Move:
        """Return the move of a call, legal or not."""
        text = call_text(name, arguments)
        given = arguments if isinstance(arguments, Mapping) else {}
        try:
            return Move(text, self._tools.action(name, arguments), tool=name, arguments=given)
        except InvalidRequestError as error:
            return Move(text, problem=refusal_text(error), tool=name, arguments=given)

    def answer(self, move: Move, turn: int) -> Message:
        """Return a message with the call."""
        # Nine letters and digits, which the strictest of the chat templates requires.
        return call_message(move, f"call{turn:05}")

    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        """Return a message of the tool for each call of an answer; calls after the episode's end are not done."""
        # A name that the model made up, or wrote so that it can't be read, enters no chat template.
        written = [{"function": {"name": result.move.tool}} for result in results]
        calls = answer.get("tool_calls") or written
        replies = tool_messages(calls, results, failed=failed)
        return [reply if reply["name"] in self.names else {**reply, "name": self.names[0]} for reply in replies]


def call_text(name: str, arguments: Any) -> str:
    """Write a call as the text of an action: the tool's name, and its arguments as JSON, or as the text that they are.

    Example:
        >>> call_text("guess", {"word": "mouse"})
        'guess {"word": "mouse"}'
    """
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{name} {written}"


def call_message(move: Move, call_id: str = "") -> Message:
    """Return an assistant's message with a call, or with the text of a move in which no call could be read."""
    if not move.tool:
        return {"role": "assistant", "content": move.text}
    function = {"name": move.tool, "arguments": dict(move.arguments)}
    call = {**({"id": call_id} if call_id else {}), "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def tool_messages(
    calls: Sequence[Mapping[str, Any]], results: Sequence[MoveResult], *, failed: bool = False
) -> list[Message]:
    """Return the tools' messages after an answer with calls, as `Form.replies` does."""
    contents: list[Content] = [*(result.content for result in results), *([EPISODE_FAILED] if failed else [])]
    contents += [EPISODE_OVER] * (len(calls) - len(contents))
    return [_tool_message(call, content) for call, content in zip(calls, contents, strict=False)]


def _tool_message(call: Mapping[str, Any], content: Content) -> Message:
    number = {"tool_call_id": call["id"]} if "id" in call else {}
    return {"role": "tool", **number, "name": call["function"]["name"], "content": content}
