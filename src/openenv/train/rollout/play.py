"""One episode under way: what an agent does in it, what comes of that, and where it ends.

The rules of an episode are here, whatever steps the environment: the loop (`openenv.train.rollout.loop`), or a caller
with a loop of its own, such as TRL's or Inspect's.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openenv.core.client_types import StepResult
from openenv.core.exceptions import InvalidRequestError, OpenEnvError, RequestRejectedError
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, call_problem, refusal_text

__all__ = ["Limits", "Play", "Shown"]

Shown = Callable[[StepResult[Any]], Content]
"""Writes what an agent is shown of a result."""


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
        shown: Writes what the agent is shown of a result; ``None`` for an episode without that.
        parameters: What the reset is sent in place of all of the task.

    Attributes:
        episode: The record.
        number: As above.
        parameters: As above.
        first: What the reset gave; ``None`` before it, and where it failed.
        last: What the environment answered last.
        observation: What the agent is shown now.
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
        self.observation: Content = ""
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
        self.episode.add_turn(text_of(self.observation), move.text, result, problem)
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
