"""Moves of an agent, the answers of a model that make them, and their results."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message
from openenv.train.tools.contents import Content

__all__ = ["Move", "MoveResult", "ReadAnswer"]


# Made for every action of every episode, which a frozen dataclass would be slow at.
class Move(NamedTuple):
    """Action of an agent.

    Attributes:
        text: The action as text; of a model, its own words.
        action: The action that the environment is sent; ``None`` for none.
        problem: The reason why it is no legal action; ``None`` if it is one.
        tool: The tool that is called; empty where actions are texts, or no call could be read.
        arguments: Its arguments.
    """

    text: str
    action: Any = None
    problem: str | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})


class ReadAnswer(NamedTuple):
    """Answer of a model, as it is read.

    Attributes:
        message: The assistant's message, with all that the model wrote.
        moves: Its moves, in their order; with none the model ends the episode.
    """

    message: Message
    moves: Sequence[Move]


class MoveResult(NamedTuple):
    """Result of a move.

    Attributes:
        move: The move.
        observation: The content that the agent is shown now.
        problem: The reason why it was no legal action; ``None`` if it was one.
        result: The environment's answer; ``None`` if there was none, or it refused.
    """

    move: Move
    observation: Content
    problem: str | None = None
    result: StepResult[Any] | None = None

    @property
    def content(self) -> Content:
        """Content of a tool's answer: that of the result, or the reason why the action was not done."""
        return self.observation if self.result is not None or self.problem is None else self.problem
