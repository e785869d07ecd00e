"""One episode under way: an agent's moves, their results, and the rules of its end.

The rules are the same for the loop (`openenv.train.rollout.loop`) and for callers with a loop of their own, such as
TRL's or Inspect's.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.exceptions import InvalidRequestError, OpenEnvError, RequestRejectedError
from openenv.records.answers import AnswerRule
from openenv.train.episodes.budget import NO_BUDGET, Budget
from openenv.train.episodes.episode import Episode, Limit
from openenv.train.episodes.played_episode import Message, Usage, text_of
from openenv.train.forms.form import Form
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content, call_problem, refusal_text

__all__ = ["Limits", "Play", "Shown"]

Shown = Callable[[StepResult[Any]], Content]
"""Function from a result to the content that an agent is shown."""


@dataclass(frozen=True)
class Limits:
    """Limits at which episodes are cut off.

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
    """Episode under way.

    - An episode that is done, or whose reset failed, has no moves.
    - A text that the rules refuse, or that is no action, is a turn with a problem; what it does is the rule's.
    - A failure of the environment, a reward that is no finite number, and an end without a reward, end the episode
      with an error: it has no reward then, and none of 0.
    - After ``max_turns`` moves an episode is cut off; moves that are left in an answer then are not done.
    - Where a limit of the budget is reached, it is cut off after the moves of the answer.

    Args:
        task: Parameters of its reset, with the seed if there is one.
        number: Its number among the episodes that are played together, which is that of its session.
        max_turns: Moves after which it is cut off; ``None`` for no limit.
        shown: Function from a result to the content that the agent is shown; ``None`` for an episode without that.
        parameters: Parameters that the reset is sent instead of all of the task.
        rule: What an illegal answer does.
        budget: Limits of its answers, tokens and seconds.

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
        rule: AnswerRule = AnswerRule(),  # noqa: B008  # it can't be changed
        budget: Budget = NO_BUDGET,
    ) -> None:
        self.episode = Episode.of_task(task)
        self.number = number
        self.parameters = dict(task) if parameters is None else dict(parameters)
        # The reset's result; None before it, and where it failed.
        self.first: StepResult[Any] | None = None
        # The environment's last result, and the content that the agent is shown of it.
        self.last: StepResult[Any] | None = None
        self.observation: Content = ""
        # Results of the moves, but for one that the environment failed at; and those of the agent's last answer.
        self.results: list[MoveResult] = []
        self.answered: list[MoveResult] = []
        # The conversation with the agent, as chat templates read it, which its actor writes. The messages after its
        # last answer were read by no agent.
        self.messages: list[Message] = []
        # The tokens of the model's answers so far, which its actor counts; None for a player without a model.
        self.usage: Usage | None = None
        self._max_turns = sys.maxsize if max_turns is None else max_turns
        self._shown = shown
        self.rule = rule
        self._moves: deque[Move] = deque()
        self._has_stopped = False
        self._budget = budget
        self._answers = 0
        self._began = 0.0

    @property
    def is_over(self) -> bool:
        """True if no further move is possible, or the agent makes none."""
        return self._has_stopped or self.episode.is_over(self._max_turns)

    @property
    def next_move(self) -> Move | None:
        """Move that is to be done now; ``None`` if the agent has to act first."""
        return self._moves[0] if self._moves else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the budget leaves; ``None`` for no limit."""
        limit = self._budget.max_seconds
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._began))

    def begin(self, result: StepResult[Any] | OpenEnvError) -> None:
        """Note the reset's result or error."""
        error = result.reward_error if isinstance(result, StepResult) else result
        if error is not None:
            self.episode.fail(error, in_reset=True)
            return
        assert isinstance(result, StepResult)
        self.first = result
        self._began = time.monotonic()
        self.episode.done = result.done
        self._see(result)

    def act(self, moves: Sequence[Move]) -> None:
        """Note the moves of an agent's answer, to be done in their order; with none the agent ends the episode."""
        self.answered = []
        self._answers += 1
        if self.rule.illegal_answers != "fallback":  # nothing is played for an illegal answer
            moves = [move if move.problem is None else move._replace(action=None) for move in moves]
        self._moves = deque(moves)
        if not moves and not self._has_stopped:
            self.episode.answers_without_call += 1
        self._has_stopped = not moves

    def note(self, result: StepResult[Any] | OpenEnvError | None) -> None:
        """Note the environment's answer to the next move; ``None`` if it was sent nothing."""
        move = self._moves.popleft()
        problem = move.problem
        if isinstance(result, StepResult):
            problem = problem or call_problem(result)
        elif isinstance(result, RequestRejectedError | InvalidRequestError):
            # The rules refuse the action: nothing happened, and the agent may try again.
            problem, result = refusal_text(result), None
        self.episode.add_turn(text_of(self.observation), move.text, result, problem, self.rule.penalty)
        self.episode.took_s = time.monotonic() - self._began
        if self.episode.error is None:
            self._add_result(move, problem, result)
        if problem is not None and self.rule.illegal_answers == "end" and not self.is_over:
            self.cut("illegal_answers")
        if not self._moves and not self.is_over:
            limit = self._budget.reached(self._answers, self.usage, self.episode.took_s)
            if limit is not None:
                self.cut(limit)
        if self.is_over:
            self._moves.clear()

    def append_replies(self, form: Form) -> list[Message]:
        """Append the results of the agent's last answer to the conversation, and return their messages."""
        replies = form.replies(self.messages[-1], self.answered, failed=self.episode.error is not None)
        self.messages += replies
        return replies

    def fail(self, error: OpenEnvError) -> None:
        """End the episode with the agent's failure, which is none of the environment's and no reward."""
        self.episode.fail(error)

    def cut(self, limit: Limit) -> None:
        """Cut the episode off."""
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
        self.episode.participants |= result.participants
        self.episode.cpu_s = result.cpu_s
        if self._shown is not None:
            self.observation = self._shown(result)
