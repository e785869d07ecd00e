"""One rollout's environment as TRL's ``environment_factory`` takes it: an object whose methods are the tools.

TRL finds the tools on the object's class: every public function but ``reset`` and ``get_reward``. So a class is made
for each environment, and nothing else that is public is a function of it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from openenv.core.client.tools import HiddenMethod
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    OpenEnvError,
    ServerCapacityError,
)
from openenv.core.wire.results import component_totals
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.tool_form import EPISODE_FAILED, EPISODE_OVER, ToolForm
from openenv.train.rollout.tool_play import ToolPlay
from openenv.train.spec.interfaces import Spec
from openenv.train.tools.contents import Content
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from openenv.core.sync_client import SyncEnvClient

__all__ = ["EPISODE_FAILED", "EPISODE_OVER", "EpisodeStep", "ToolEnvironment", "tool_environment_class"]

logger = logging.getLogger(__name__)


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
        """Write down what a move came to; where actions are texts, the argument is ``text``."""
        move, answered = result.move, result.result
        arguments = move.arguments if move.tool else {"text": move.text}
        reward = None if answered is None or answered.reward is None else float(answered.reward)
        done = answered is not None and answered.done
        components = {} if answered is None else answered.reward_components
        return cls(move.tool, arguments, result.content, reward, done, result.problem, components)


class ToolEnvironment:
    """An environment for one rollout at a time. ``EnvSpec.environment_factory`` makes them.

    A session is opened at the first reset and kept for all later ones. Once the episode is over, tools say so and send
    nothing.

    Args:
        spec: The environment, an `EnvSpec`.

    Example:
        >>> with EnvSpec("wordle") as spec:  # doctest: +SKIP
        ...     game = spec.environment_factory()
        ...     print(game.reset(seed=1))
        ...     print(game.guess(word="crane"))
        ...     print(game.get_reward(), game.done)
    """

    _tools: ClassVar[EnvironmentTools]

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._play: ToolPlay | None = None
        self._trajectory: list[EpisodeStep] = []

    @property
    def spec(self) -> Spec:
        """The environment that this is one of."""
        return self._spec

    @property
    def task(self) -> Mapping[str, Any]:
        """What the environment's ``reset`` was passed."""
        return {} if self._play is None else self._play.episode.parameters

    @property
    def opening(self) -> str:
        """The first observation, as text; empty before the first reset, and where it failed."""
        first = None if self._play is None else self._play.first
        return "" if first is None else text_of(self._form.shown(first))

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
        """Whether the environment ended the episode."""
        return self._play is not None and self._play.episode.done

    @property
    def error(self) -> OpenEnvError | None:
        """Why the environment failed in this episode, which then says nothing about the model."""
        return None if self._play is None else self._play.episode.error

    @property
    def illegal_actions(self) -> int:
        """How many tool calls were refused."""
        return sum(step.problem is not None for step in self._trajectory)

    @property
    def last_result(self) -> StepResult[Any] | None:
        """What the environment answered last: observation, reward, done flag; ``None`` before the first reset."""
        return None if self._play is None else self._play.last

    @property
    def metadata(self) -> dict[str, Any]:
        """What the environment reported last beside its observation."""
        result = self.last_result
        if result is None:
            return {}
        return dict(result.metadata or getattr(result.observation, "metadata", None) or {})

    @property
    def session_id(self) -> str | None:
        """Id of the session on the server; ``None`` before the first reset, and where the wire tells none."""
        client = self.__dict__.get("_client")
        return None if client is None else client.session_id

    def reset(self, **row: Any) -> Content:
        """Start an episode.

        Args:
            **row: The columns of a row of the dataset. A row of the spec's own is found by its prompt; of any other,
                all columns are passed on but those that are the trainer's, and the environment takes those it knows.

        Returns:
            The first observation: text, or blocks of content where there are pictures.

        Raises:
            ConfigurationError: The server holds fewer sessions than there are rollouts, or the sessions were closed.
            ConnectionFailedError: The server is gone.
        """
        self._spec.pool.check_open()
        task = self._spec.task_of_row(row)
        limit = self._spec.max_turns
        parameters = self._spec.taken(task)
        play = ToolPlay(task, self._client, self._form, max_turns=limit, parameters=parameters)
        self._play, self._trajectory = play, []
        try:
            result = play.reset()
        except ServerCapacityError as error:
            raise ConfigurationError(
                f"{error.message} Each rollout of {self._spec.name} at a time needs a session, and TRL plays as many "
                "as the generation batch is large. Let the server hold more: EnvSpec(..., sessions=...), or "
                "MAX_CONCURRENT_ENVS where it runs."
            ) from error
        except (ConnectionFailedError, ConnectionLostError) as error:
            error.add_note(f"The server of {self._spec.name} can't be reached any more.")
            raise
        except OpenEnvError as error:
            return self._failed(error)
        self._spec.check_shown(result.observation)
        return play.observation

    def _get_reward(self) -> float | None:
        """Return the sum of the environment's rewards; ``None`` where it failed."""
        return self.reward

    get_reward = HiddenMethod(_get_reward)

    @cached_property
    def _form(self) -> ToolForm:
        return ToolForm(self._tools, self._spec.pool.pixels)

    @cached_property
    def _client(self) -> "SyncEnvClient[Any, Any, Any]":
        return self._spec.pool.session()

    def _call(self, name: str, arguments: dict[str, Any]) -> Content:
        """Do what a tool's method is called for."""
        play = self._play
        if play is None:
            raise ConfigurationError(f"Expected reset() before {name}(); there is no episode yet.")
        self._spec.pool.check_open()
        was_over = play.is_over
        shown = play.call(name, arguments)
        if was_over:
            return shown
        if play.episode.error is not None:
            return self._failed(play.episode.error)
        self._trajectory.append(EpisodeStep.of(play.results[-1]))
        return shown

    def _failed(self, error: OpenEnvError) -> str:
        logger.warning("an episode of %s failed: %s", self._spec.name, error)
        return EPISODE_FAILED


def tool_environment_class(name: str, tools: EnvironmentTools, *, gives_reward: bool = False) -> type[ToolEnvironment]:
    """Make the class of one environment.

    Args:
        name: Name of the environment.
        tools: Its tools; each is a method, of the tool's name unless the class has another use for that.
        gives_reward: Whether TRL shall find ``get_reward``, and so count the environment's reward by itself.
    """
    members: dict[str, Any] = {
        "__doc__": f"The environment {name} for one rollout at a time.",
        "__module__": __name__,
        "_tools": tools,
    }
    if gives_reward:
        members["get_reward"] = ToolEnvironment._get_reward
    class_name = f"{_camel_case(name)}Environment"
    for method in tools.methods:
        attribute = _attribute(method.name, members)
        members[attribute] = method.function(_called, f"{class_name}.{attribute}")
    return type(class_name, (ToolEnvironment,), members)


def _called(environment: ToolEnvironment, name: str, arguments: dict[str, Any]) -> Content:
    return environment._call(name, arguments)


def _attribute(tool: str, members: Mapping[str, Any]) -> str:
    """Name the attribute of a tool, whose function has the tool's own name, which is what TRL and models know."""
    attribute = f"tool_{tool}" if tool.startswith("_") or tool in _TAKEN else tool
    while attribute in members:
        attribute += "_"
    return attribute


_TAKEN = frozenset(dir(ToolEnvironment)) | {"get_reward", "reset"}


def _camel_case(name: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    return "".join(word[0].upper() + word[1:] for word in words)
