"""Current episode of a session: its phase, its steps and rewards, and the counts of the episodes before."""

from collections.abc import Mapping
from typing import Any, Final

from openenv.core.env_server.history.entries import Position
from openenv.core.env_server.sessions.state import Phase
from openenv.core.exceptions import ResetNeededError
from openenv.core.wire.results import Outcome

# To look up a member of an enumeration takes as long as a short function.
_PLAYING, _DONE = Phase.PLAYING, Phase.DONE

_LONGEST_TASK = 100

_NEEDED_RESETS: Final = {
    Phase.NEW: "Expected a reset first: no episode has been started in this session.",
    Phase.DONE: "Expected a reset: the episode has ended, so there is nothing to step.",
}


class Episode:
    """Current episode of a session, and counts of all its episodes.

    Args:
        episode_id: Id of the episode that a copied environment continues.

    Attributes:
        id: Id of the episode, if its reset named one.
        phase: Phase of the episode.
        number: Number of resets of the session.
        step_count: Number of steps since the last reset.
        reward: Sum of rewards since the last reset.
        task: The task and seed that the reset named, in words; empty if it named none.
    """

    __slots__ = ("_earlier_steps", "id", "number", "phase", "reward", "step_count", "task")

    def __init__(self, episode_id: str | None = None) -> None:
        self.id = episode_id
        self.phase = Phase.NEW
        self.number = 0
        self.step_count = 0
        self.reward = 0.0
        self.task = ""
        self._earlier_steps = 0

    @property
    def total_steps(self) -> int:
        """Number of steps in all episodes of the session."""
        return self._earlier_steps + self.step_count

    @property
    def position(self) -> Position:
        """Position of the episode."""
        return Position(self.phase.value, self.number, self.step_count, self._earlier_steps, self.reward)

    def reset_needed(self) -> ResetNeededError:
        """Return the error for a step while no episode is running."""
        return ResetNeededError(_NEEDED_RESETS[self.phase])

    def begin(self, outcome: Outcome, episode_id: str | None, task: str = "") -> None:
        """Begin the next episode.

        Args:
            outcome: Outcome of the reset.
            episode_id: Id of the episode, if its reset named one.
            task: The task that its reset named, as ``task_named`` returns it.
        """
        self.id = episode_id
        self.task = task
        self.number += 1
        self._earlier_steps += self.step_count
        self.step_count = 0
        self.reward = float(outcome.reward or 0.0)
        self.phase = _DONE if outcome.done else _PLAYING

    def advance(self, outcome: Outcome) -> None:
        """Count a step.

        Args:
            outcome: Outcome of the step.
        """
        self.step_count += 1
        if outcome.reward:
            self.reward += outcome.reward
        # An environment without REQUIRES_RESET may go on after the end of an episode, or begin without a reset.
        self.phase = _DONE if outcome.done else _PLAYING

    def continue_from(self, position: Position) -> None:
        """Continue from the position of another session, whose environment was copied or restored into this one."""
        self.phase = Phase(position.phase)
        self.number, self.step_count, self._earlier_steps = position[1:4]
        self.reward = position.reward


def task_named(arguments: Mapping[str, Any]) -> str:
    """Return the task and the seed that the arguments of a reset name, in words for a table.

    Example:
        >>> task_named({"split": "train", "index": 3, "seed": 7})
        'train 3, seed 7'
    """
    split, index, seed = arguments.get("split"), arguments.get("index"), arguments.get("seed")
    named = [] if split is None else [f"{split}" if index is None else f"{split} {index}"]
    if seed is not None:
        named.append(f"seed {seed}")
    return ", ".join(named)[:_LONGEST_TASK]
