"""One rollout's environment as TRL's ``environment_factory`` takes it: an object whose methods are the tools.

TRL finds the tools on the object's class: every public function but ``reset`` and ``get_reward``. So a class is made
for each environment, and nothing else that is public is a function of it.
"""

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from openenv.core.client.tools import HiddenMethod
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    OpenEnvError,
    RequestGivenUpError,
    ServerCapacityError,
)
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.tool_form import EPISODE_FAILED, EPISODE_OVER, ToolForm
from openenv.train.rollout.tool_episode import EpisodeStep, ToolEpisode
from openenv.train.rollout.tool_play import ToolPlay
from openenv.train.tools.contents import Content
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.trl.spec_tasks import SpecTasks

if TYPE_CHECKING:
    from openenv.core.sync_client import SyncEnvClient

__all__ = ["EPISODE_FAILED", "EPISODE_OVER", "EpisodeStep", "ToolEnvironment", "tool_environment_class"]

logger = logging.getLogger(__name__)


class ToolEnvironment(ToolEpisode):
    """An environment for one rollout at a time. ``EnvSpec.environment_factory`` makes them.

    A session is opened at the first reset and kept for all later ones. Once the episode is over, tools return a
    message of that and send nothing.

    Args:
        spec_tasks: The environment and its tasks.

    Example:
        >>> with EnvSpec("wordle") as spec:  # doctest: +SKIP
        ...     game = spec.environment_factory()
        ...     print(game.reset(seed=1))
        ...     print(game.guess(word="crane"))
        ...     print(game.get_reward(), game.done)
    """

    _tools: ClassVar[EnvironmentTools]

    def __init__(self, spec_tasks: SpecTasks) -> None:
        super().__init__()
        self._spec_tasks = spec_tasks

    @property
    def session_id(self) -> str | None:
        """Id of the session on the server; ``None`` before the first reset, and where the wire has none."""
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
        self._spec_tasks.sessions.check_open()
        task = self._spec_tasks.task_of_row(row)
        limit = self._spec_tasks.max_turns
        parameters = self._spec_tasks.parameters_of(task)
        rule = self._spec_tasks.rule
        play = ToolPlay(task, self._client, self._form, max_turns=limit, parameters=parameters, rule=rule)
        self._play, self._opening, self._trajectory, self._refused = play, "", [], []
        try:
            result = play.reset()
        except ServerCapacityError as error:
            raise ConfigurationError(
                f"{error.message} Each rollout of {self._spec_tasks.name} at a time needs a session, and TRL plays as "
                "many as the generation batch is large. Let the server hold more: EnvSpec(..., sessions=...), or "
                "MAX_CONCURRENT_ENVS where it runs."
            ) from error
        except RequestGivenUpError as error:  # this reset ends connections, and others may not
            return self._failed(error)
        except (ConnectionFailedError, ConnectionLostError) as error:
            error.add_note(f"The server of {self._spec_tasks.name} can't be reached any more.")
            raise
        except OpenEnvError as error:
            return self._failed(error)
        self._spec_tasks.warn_of_hidden_text(result.observation)
        self._opening = text_of(play.observation)
        return play.observation

    def _get_reward(self) -> float | None:
        """Return the sum of the environment's rewards, less what illegal actions cost; ``None`` where it failed."""
        return self.training_reward

    get_reward = HiddenMethod(_get_reward)

    @cached_property
    def _form(self) -> ToolForm:
        return ToolForm(self._tools, self._spec_tasks.sessions.pixels)

    @cached_property
    def _client(self) -> "SyncEnvClient[Any, Any, Any]":
        return self._spec_tasks.sessions.session()

    def _call(self, name: str, arguments: dict[str, Any]) -> Content:
        """Do what a tool's method is called for."""
        play = self._play
        if play is None:
            raise ConfigurationError(f"Expected reset() before {name}(); there is no episode yet.")
        self._spec_tasks.sessions.check_open()
        was_over = play.is_over
        shown = play.call(name, arguments)
        if was_over:
            return shown
        if play.episode.error is not None:
            return self._failed(play.episode.error)
        self._trajectory.append(EpisodeStep.of(play.results[-1]))
        return shown

    def _failed(self, error: OpenEnvError) -> str:
        logger.warning("an episode of %s failed: %s", self._spec_tasks.name, error)
        return EPISODE_FAILED


def tool_environment_class(name: str, tools: EnvironmentTools, *, gives_reward: bool = False) -> type[ToolEnvironment]:
    """Return the class of one environment, whose methods are its tools; TRL counts a ``get_reward`` by itself."""
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
    attribute = f"tool_{tool}" if tool.startswith("_") or tool in _OWN_NAMES else tool
    while attribute in members:
        attribute += "_"
    return attribute


_OWN_NAMES = frozenset(dir(ToolEnvironment)) | {"get_reward", "reset"}


def _camel_case(name: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    return "".join(word[0].upper() + word[1:] for word in words)
