"""Forms of actions: how a player's episodes look as conversations, what a model would see, and should answer.

There are two forms of them. In the form of tools an action is a call of a tool; in the form of texts it is the text
that `ActionText` reads. Pictures are left out.
"""

from collections.abc import Collection
from typing import Any, Protocol

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.rollout.play import Move, MoveResult, call_text
from openenv.train.rollout.renderer import first_content, next_content
from openenv.train.spec.sessions import Sessions
from openenv.train.tools.contents import call_content
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["ActionForm", "TextForm", "ToolForm", "form_of"]


class ActionForm(Protocol):
    """How actions, and what comes of them, look in a conversation.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty if there are none.
    """

    tools: list[dict[str, Any]]

    def shown(self, result: StepResult[Any]) -> str:
        """Return what an agent is shown of a result."""
        ...

    def move(self, action: Any) -> Move:
        """Write an action as a move."""
        ...

    def opening(self, observation: str) -> str:
        """Return what the user says after a reset."""
        ...

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return the assistant's message for a move, the episode's ``turn``-th from 0, and the answer to it."""
        ...


class ToolForm:
    """Actions are calls of tools, and what they do is the tools' answers.

    Args:
        tools: The environment's tools.
        pixels: The fields of observations that are declared as the pixels of a picture.
    """

    def __init__(self, tools: EnvironmentTools, pixels: Collection[str] = ()) -> None:
        self._tools = tools
        self._pixels = pixels
        self.tools = tools.schemas()

    def shown(self, result: StepResult[Any]) -> str:
        """Return what a tool gives, or the first observation."""
        return text_of(call_content(result, self._pixels))

    def move(self, action: Any) -> Move:
        """Return a call, whose text is the tool's name and the arguments in JSON."""
        name, arguments = self._tools.call(action)
        return Move(call_text(name, arguments), action, tool=name, arguments=arguments)

    def opening(self, observation: str) -> str:
        """Return the observation."""
        return observation

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return a message with the call, and the tool's answer."""
        name = result.move.tool
        # Nine letters and digits, which is what the strictest of the chat templates asks for.
        number = f"call{turn:05}"
        call = {"id": number, "type": "function", "function": {"name": name, "arguments": result.move.arguments}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": number, "name": name, "content": result.text},
        ]


class TextForm:
    """Actions are texts, and what they do is said by the user, as `ChatRenderer` has it.

    Args:
        actions: The environment's actions as text.
        instructions: What comes before the first observation.
    """

    def __init__(self, actions: ActionText, instructions: str) -> None:
        self._actions = actions
        self._instructions = instructions
        self.tools: list[dict[str, Any]] = []

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def move(self, action: Any) -> Move:
        """Return the action with its text."""
        return Move(self._actions.write(action), action)

    def opening(self, observation: str) -> str:
        """Return the instructions and the observation."""
        return first_content(self._instructions, observation)

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return a message with the action's text, and one with what is seen now, or was wrong."""
        problem = result.problem if result.result is None else None
        return [
            {"role": "assistant", "content": result.move.text},
            {"role": "user", "content": next_content(result.observation, problem)},
        ]


def form_of(sessions: Sessions) -> ActionForm:
    """Return the form of an environment's actions: calls where its tools are offered, else texts, without instructions.

    Args:
        sessions: The environment.
    """
    if sessions.tools is None:
        return TextForm(ActionText(sessions.action), "")
    return ToolForm(sessions.tools, sessions.pixels)
