"""Moves of an agent, and what they came to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from openenv.core.client_types import StepResult
from openenv.train.tools.contents import Content

__all__ = ["Move", "MoveResult"]


# Made for every action of every episode, which a frozen dataclass would be slow at.
class Move(NamedTuple):
    """One action of an agent.

    Attributes:
        text: The action as text; of a model, what it wrote.
        action: What is sent to the environment; ``None`` for nothing.
        problem: Why it is no legal action; ``None`` if it is one.
        tool: The tool that is called; empty where actions are texts, or no call could be read.
        arguments: Its arguments.
    """

    text: str
    action: Any = None
    problem: str | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})


class MoveResult(NamedTuple):
    """What came of a move.

    Attributes:
        move: The move.
        observation: What the agent is shown now.
        problem: Why it was no legal action, if it was none.
        result: What the environment answered; ``None`` if it answered nothing, or refused.
    """

    move: Move
    observation: Content
    problem: str | None = None
    result: StepResult[Any] | None = None

    @property
    def content(self) -> Content:
        """What a tool answers: what the action gave, or why it was not done."""
        return self.observation if self.result is not None or self.problem is None else self.problem
