"""One episode under way: what an agent does in it, what comes of that, and where it ends.

The rules of an episode are here, whatever steps the environment: the loop (`openenv.train.rollout.loop`), or a caller
with a loop of its own, such as TRL's or Inspect's.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.core.exceptions import InvalidRequestError, OpenEnvError, RequestRejectedError
from openenv.train.episodes.episode import Episode
from openenv.train.tools.contents import call_problem, refusal_text
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["Limits", "Move", "MoveResult", "Play", "Shown", "call_text", "text_move", "tool_move"]

Shown = Callable[[StepResult[Any]], str]
"""Writes what an agent is shown of a result."""


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
        observation: What the agent is shown now, as text.
        problem: Why it was no legal action, if it was none.
        result: What the environment answered; ``None`` if it answered nothing, or refused.
    """

    move: Move
    observation: str
    problem: str | None = None
    result: StepResult[Any] | None = None

    @property
    def text(self) -> str:
        """What a tool answers: what the action gave, or why it was not done."""
        return self.observation if self.result is not None or self.problem is None else self.problem


@dataclass(frozen=True)
class Limits:
    """Where episodes are cut off.

    Attributes:
        max_turns: Actions.
        max_context: Tokens, from the prompt's first on.
        max_completion: Tokens after the prompt.
    """

    max_turns: int
    max_context: int
    max_completion: int = sys.maxsize

    def room(self, episode: Episode) -> int:
        """Return how many tokens an episode may still have."""
        return min(self.max_context - episode.length, self.max_completion - len(episode.completion_ids))


class Play:
    """An episode under way.

    - An episode that is done, or whose reset failed, takes no moves.
    - What the rules refuse, or what is no action at all, is a turn with a problem; the agent may go on.
    - A failure of the environment, and a reward that is no finite number, ends the episode with an error.
    - After ``max_turns`` moves an episode is cut off; moves that are left in an answer then are not done.

    Args:
        task: What its reset is passed, with the seed if there is one.
        number: Its number among the episodes that are played together, which is that of its session.
        max_turns: Moves after which it is cut off; ``None`` for no limit.
        shown: Writes observations for the record; ``None`` for a record without them.
        parameters: What the reset is sent in place of all of the task.

    Attributes:
        episode: The record.
        number: As above.
        parameters: As above.
        first: What the reset gave; ``None`` before it, and where it failed.
        last: What the environment answered last.
        observation: What the agent is shown now, as text.
        results: What came of the moves, but for one that the environment failed at.
        answered: Those of them that belong to the agent's last answer.

    Example:
        >>> play = Play({"seed": 1}, max_turns=3)
        >>> play.begin(StepResult({"text": "ball 3"}))
        >>> play.act([Move("left", {"move": "left"})])
        >>> play.note(StepResult({"text": "ball 2"}, reward=1.0, done=True))
        >>> play.is_over, play.episode.reward
        (True, 1.0)
    """

    def __init__(
        self,
        task: Mapping[str, Any],
        *,
        number: int = 0,
        max_turns: int | None = None,
        shown: Shown | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.episode = Episode.of_task(task)
        self.number = number
        self.parameters = dict(task) if parameters is None else dict(parameters)
        self.first: StepResult[Any] | None = None
        self.last: StepResult[Any] | None = None
        self.observation = ""
        self.results: list[MoveResult] = []
        self.answered: list[MoveResult] = []
        self._max_turns = sys.maxsize if max_turns is None else max_turns
        self._shown = shown
        self._moves: deque[Move] = deque()
        self._has_stopped = False
        self._began = 0.0

    @property
    def is_over(self) -> bool:
        """Whether no further move is possible, or the agent makes none."""
        return self._has_stopped or self.episode.is_over(self._max_turns)

    @property
    def next_move(self) -> Move | None:
        """The move that is to be done now; ``None`` if the agent has to act first."""
        return self._moves[0] if self._moves else None

    def begin(self, result: StepResult[Any] | OpenEnvError) -> None:
        """Note what the reset gave.

        Args:
            result: The first observation, or why there is none.
        """
        if isinstance(result, OpenEnvError):
            self.episode.error = result
            return
        self.first = result
        self._began = time.monotonic()
        self.episode.done = result.done
        self._see(result)

    def act(self, moves: Sequence[Move]) -> None:
        """Note an answer of the agent.

        Args:
            moves: Its moves, to be done in their order; with none the agent ends the episode.
        """
        self.answered = []
        self._moves = deque(moves)
        self._has_stopped = not moves

    def note(self, result: StepResult[Any] | OpenEnvError | None) -> None:
        """Note what came of the next move.

        Args:
            result: What the environment answered; ``None`` if it was sent nothing.
        """
        move = self._moves.popleft()
        problem = move.problem
        if isinstance(result, StepResult):
            problem = problem or call_problem(result)
        elif isinstance(result, RequestRejectedError | InvalidRequestError):
            # The rules refuse the action: nothing happened, and the agent may try again.
            problem, result = refusal_text(result), None
        self.episode.add_turn(self.observation, move.text, result, problem)
        self.episode.took_s = time.monotonic() - self._began
        if self.episode.error is None:
            self._add_result(move, problem, result)
        if self.is_over:
            self._moves.clear()

    def cut(self, limit: Literal["max_turns", "max_context"]) -> None:
        """Cut the episode off, as a limit wants it."""
        self.episode.cut_by = limit
        self._has_stopped = True

    def _add_result(self, move: Move, problem: str | None, result: Any) -> None:
        if result is not None:
            self._see(result)
        noted = MoveResult(move, self.observation, problem, result)
        self.results.append(noted)
        self.answered.append(noted)
        if not self.episode.done and self.is_over:
            self.cut("max_turns")

    def _see(self, result: StepResult[Any]) -> None:
        self.last = result
        if self._shown is not None:
            self.observation = self._shown(result)


def call_text(name: str, arguments: Any) -> str:
    """Write a call of a tool as the text of an action: the tool's name, and its arguments as JSON.

    Args:
        name: The tool.
        arguments: Its arguments; a text is taken for what was to be JSON.

    Example:
        >>> call_text("guess", {"word": "mouse"})
        'guess {"word": "mouse"}'
    """
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{name} {written}"


def text_move(actions: ActionText, text: str) -> Move:
    """Make a move of a text, which need be no legal action.

    Args:
        actions: Reads actions from text.
        text: The text.
    """
    reading = actions.read(text)
    return Move(text, reading.action, reading.problem)


def tool_move(tools: EnvironmentTools, name: str, arguments: Any) -> Move:
    """Make a move of a call of a tool, which need be no legal one.

    Args:
        tools: The environment's tools.
        name: The tool that is called.
        arguments: What it is called with.
    """
    text = call_text(name, arguments)
    given = arguments if isinstance(arguments, Mapping) else {}
    try:
        return Move(text, tools.action(name, arguments), tool=name, arguments=given)
    except InvalidRequestError as error:
        return Move(text, problem=refusal_text(error), tool=name, arguments=given)
