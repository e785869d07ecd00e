"""Record of an episode of tool calls, as reward functions and TRL read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.core.wire.results import component_totals
from openenv.train.forms.moves import MoveResult
from openenv.train.rollout.tool_play import ToolPlay
from openenv.train.tools.contents import Content

__all__ = ["EpisodeStep", "ToolEpisode"]


@dataclass(frozen=True)
class EpisodeStep:
    """One tool call of an episode.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments.
        observation: What the model was shown, as text or as TRL's blocks of content.
        reward: The reward of this step; ``None`` where the environment gave none.
        done: Whether the episode ended with it.
        problem: Why it was no legal action; ``None`` if it was one.
        components: Scores of the reward's components by name; empty where the environment has no rubric.
    """

    tool: str
    arguments: Mapping[str, Any]
    observation: Content
    reward: float | None = None
    done: bool = False
    problem: str | None = None
    components: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, result: MoveResult) -> Self:
        """Return the record of a move's result; where actions are texts, the argument is ``text``."""
        move, answered = result.move, result.result
        arguments = move.arguments if move.tool else {"text": move.text}
        reward = None if answered is None or answered.reward is None else float(answered.reward)
        done = answered is not None and answered.done
        components = {} if answered is None else answered.reward_components
        return cls(move.tool, arguments, result.content, reward, done, result.problem, components)


class ToolEpisode:
    """Episode that is played in an environment, or was played last, as a reward function reads it."""

    def __init__(self) -> None:
        # All three are set anew by each reset; each call adds a step.
        self._play: ToolPlay | None = None
        self._opening = ""
        self._trajectory: list[EpisodeStep] = []

    @property
    def task(self) -> Mapping[str, Any]:
        """Parameters of the environment's ``reset``."""
        return {} if self._play is None else self._play.episode.parameters

    @property
    def opening(self) -> str:
        """The first observation, as text; empty before the first reset, and where it failed."""
        return self._opening

    @property
    def trajectory(self) -> list[EpisodeStep]:
        """The episode's tool calls so far."""
        return self._trajectory

    @property
    def rewards(self) -> list[float]:
        """The reward of each tool call; 0 where the environment gave none."""
        return [step.reward or 0.0 for step in self._trajectory]

    @property
    def reward(self) -> float | None:
        """The sum of the rewards; ``None`` where the environment failed."""
        return None if self.error is not None else sum(self.rewards)

    @property
    def reward_components(self) -> dict[str, float]:
        """The sum of each component's scores over the tool calls, by name; empty where there is no rubric."""
        return component_totals(step.components for step in self._trajectory)

    @property
    def step_rewards(self) -> list[float] | None:
        """The credit of each tool call, once the episode is over, where the environment has a trajectory rubric."""
        return None if self._play is None else self._play.episode.step_rewards

    @property
    def done(self) -> bool:
        """True if the environment ended the episode."""
        return self._play is not None and self._play.episode.done

    @property
    def error(self) -> OpenEnvError | None:
        """Error of the environment in this episode, which then is no evidence about the model; ``None`` without one."""
        return None if self._play is None else self._play.episode.error

    @property
    def illegal_actions(self) -> int:
        """Number of tool calls that were refused."""
        return sum(step.problem is not None for step in self._trajectory)

    @property
    def last_result(self) -> StepResult[Any] | None:
        """Last result of the environment: observation, reward, done flag; ``None`` before the first reset."""
        return None if self._play is None else self._play.last

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata that the environment reported last beside its observation."""
        result = self.last_result
        if result is None:
            return {}
        return dict(result.metadata or getattr(result.observation, "metadata", None) or {})
