"""Record of an episode of tool calls, as reward functions and TRL read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from openenv.core.client.tools import HiddenMethod
from openenv.core.client_types import StepResult
from openenv.core.exceptions import FailureKind, OpenEnvError
from openenv.core.wire.results import component_totals
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.tool_form import call_text
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
        # All are set anew by each reset; each call adds a step. Calls that TRL refused are known at the end.
        self._play: ToolPlay | None = None
        self._opening = ""
        self._trajectory: list[EpisodeStep] = []
        self._refused: list[str] = []

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
    def training_reward(self) -> float | None:
        """The same less what illegal actions cost, which a model learns from; ``None`` where the environment failed."""
        reward = self.reward
        if reward is None or self._play is None:
            return reward
        return reward - self._play.rule.illegal_penalty * self.illegal_actions

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
    def failure(self) -> FailureKind | None:
        """The kind of that error; ``None`` without one."""
        return None if self._play is None else self._play.episode.failure

    @property
    def spent(self) -> dict[str, Any]:
        """Seconds, CPU and use of participants, as far as they are known."""
        return {} if self._play is None else self._play.episode.spent

    @property
    def illegal_actions(self) -> int:
        """Number of tool calls that were refused, by the environment or by TRL."""
        return len(self.illegal_texts)

    @property
    def illegal_texts(self) -> list[str]:
        """The calls that were refused, as texts."""
        refused = [call_text(step.tool, step.arguments) for step in self._trajectory if step.problem is not None]
        return [*refused, *self._refused]

    @property
    def length(self) -> int:
        """Number of tool calls before the episode was over."""
        return len(self._trajectory) + len(self._refused)

    @property
    def answers_without_call(self) -> int:
        """Number of answers without a tool call before the episode was over, each of which ends it."""
        return 0 if self._play is None else self._play.episode.answers_without_call

    def _note_answers(self, conversation: Sequence[Message]) -> None:
        """Note the answers of TRL's loop that no method was called for.

        These are calls of tools that there are none of, or without an object of arguments, and a last answer without a
        call, before the episode was over.
        """
        if self._play is None:
            return
        written = [message for message in conversation if message["role"] == "assistant"]
        calls = [call["function"] for message in written for call in message.get("tool_calls") or ()]
        self._refused = [
            call_text(call["name"], call["arguments"])
            for call in calls
            if call["name"] not in self._play.form.names or not isinstance(call["arguments"], Mapping)
        ]
        ends = bool(written) and not written[-1].get("tool_calls") and not self._play.is_over
        self._play.episode.answers_without_call = int(ends)

    note_answers = HiddenMethod(_note_answers)

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
