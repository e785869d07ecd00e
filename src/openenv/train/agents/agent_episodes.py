"""Where recorded episodes come from: a player without a model, or a model behind an address."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, cast
from urllib.parse import urlsplit

from openenv.adapters.text import ActionText
from openenv.core.exceptions import ConfigurationError
from openenv.core.sync_client import SyncEnvClient
from openenv.train.agents.players import Player, RandomPlayer, RandomToolPlayer
from openenv.train.agents.recording import form_of, record_episodes
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.settings.names import check_environment, check_model
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.spec.sessions import CAPACITY_WAIT_S, Sessions, environment_client
from openenv.train.tasks.seeds import derived_seed
from openenv.train.tasks.task_choice import NumberedTask

if TYPE_CHECKING:
    from openenv.train.agents.api_agent import ApiAgent

__all__ = ["AgentEpisodes", "ApiEpisodes", "PlayerEpisodes", "open_agent"]

# Variables with the key of a vendor's API, and of any other server.
_KEY_VARIABLES = {
    "api.openai.com": ("OPENAI_API_KEY", "API_KEY"),
    "api.anthropic.com": ("ANTHROPIC_API_KEY", "API_KEY"),
}
_KEY_OF_ANY_SERVER = ("OPENAI_API_KEY",)


class AgentEpisodes(Protocol):
    """Plays episodes of one environment; a context manager, which closes it.

    Attributes:
        client: A client of the environment, connected.
    """

    client: SyncEnvClient[Any, Any, Any]

    def play(self, tasks: Sequence[NumberedTask]) -> Iterator[PlayedEpisode]:
        """Play one episode for each task and give them as they end, under their numbers."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def open_agent(settings: PlaySettings, sessions: int, env_vars: Mapping[str, str] | None = None) -> AgentEpisodes:
    """Open what plays the episodes that are wanted.

    Args:
        settings: What is played. A model without an address lies in a folder, or is one of the Hub.
        sessions: Episodes that are played at once.
        env_vars: Environment variables to set for a server that is started.

    Raises:
        ConfigurationError: There is no such player or model.
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """
    if settings.player is not None:
        return PlayerEpisodes(settings, sessions, env_vars)
    if settings.llm_endpoint is not None:
        return ApiEpisodes(settings, sessions, env_vars)
    assert settings.model is not None
    check_environment(settings.base_url or settings.environment)
    if not (Path(settings.model) / "config.yaml").is_file():
        check_model(settings.model)
    from openenv.train.agents.policy_episodes import PolicyEpisodes  # loads torch

    return PolicyEpisodes(settings, sessions, env_vars)


class PlayerEpisodes:
    """Episodes of the random player, or of the scripted player that the environment's package brings along.

    What a player does depends on the settings' seed and the episode's number alone.

    Args:
        settings: What is played.
        sessions: Episodes that are played at once.
        env_vars: Environment variables to set for a server that is started.

    Attributes:
        client: A client of the environment, connected.

    Raises:
        ConfigurationError: The environment has no scripted player.
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """

    def __init__(self, settings: PlaySettings, sessions: int, env_vars: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._sessions = Sessions.open(
            settings.environment,
            sessions,
            with_tools=settings.form == "tools",
            step_timeout_s=settings.step_timeout_s,
            env_vars=env_vars,
            base_url=settings.base_url,
            takes_fewer=True,
        )
        self.client = self._sessions.client
        try:
            self._make_player = self._player_maker()
            self._form = form_of(self._sessions)
        except BaseException:
            self._sessions.close()
            raise

    def play(self, tasks: Sequence[NumberedTask]) -> Iterator[PlayedEpisode]:
        """Play one episode for each task, as many at once as there are sessions.

        Args:
            tasks: The tasks with the episodes' numbers.

        Yields:
            The episodes, in the order of the tasks.

        Raises:
            OpenEnvError: The environment failed in more than half of the episodes that were played at once.
        """
        for start in range(0, len(tasks), len(self._sessions)):
            batch = tasks[start : start + len(self._sessions)]
            played = record_episodes(
                self._sessions,
                [self._make_player(derived_seed(self._settings.seed, "player", number)) for number, _ in batch],
                [task for _, task in batch],
                self._form,
                max_turns=self._settings.turn_limit,
                system_prompt=self._settings.system_prompt,
            )
            yield from _numbered(iter(played), batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sessions.close()

    def _player_maker(self) -> Callable[[int], Player]:
        if self._settings.player == "random":
            tools, actions = self._sessions.tools, ActionText(self._sessions.action)
            if tools is None:
                return lambda seed: RandomPlayer(actions, seed)
            return lambda seed: RandomToolPlayer(tools, seed)
        package = self._sessions.package
        if package is None or package.manifest.player is None:
            raise ConfigurationError(
                f"{self._settings.environment} has no scripted player; take the random player or a model. "
                "An environment's package names its player in openenv.yaml."
            )
        return lambda seed: cast("Player", package.make_player(seed))


class ApiEpisodes:
    """Episodes of a model behind an OpenAI-compatible address.

    Args:
        settings: What is played.
        sessions: Episodes that are played at once.
        env_vars: Environment variables to set for a server that is started.

    Attributes:
        client: A client of the environment, connected.

    Raises:
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """

    def __init__(self, settings: PlaySettings, sessions: int, env_vars: Mapping[str, str] | None = None) -> None:
        self._agent = _api_agent(settings, sessions)
        self.client = environment_client(
            settings.environment,
            settings.base_url,
            max_sessions=sessions,
            env_vars=env_vars,
            capacity_wait_s=CAPACITY_WAIT_S,
            message_timeout_s=settings.step_timeout_s,
        )
        with ExitStack() as stack:
            stack.callback(self.client.close)
            self.client.connect()
            stack.pop_all()

    def play(self, tasks: Sequence[NumberedTask]) -> Iterator[PlayedEpisode]:
        """Play one episode for each task.

        Args:
            tasks: The tasks with the episodes' numbers.

        Yields:
            The episodes, as they end.

        Raises:
            OpenEnvError: The model can't be reached, or refuses the request.
        """
        return _numbered(self._agent.episodes(self.client, [task for _, task in tasks]), tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()


def _numbered(played: Iterator[PlayedEpisode], tasks: Sequence[NumberedTask]) -> Iterator[PlayedEpisode]:
    return (replace(each, index=tasks[each.index][0]) for each in played)


def _api_agent(settings: PlaySettings, sessions: int) -> "ApiAgent":
    try:
        from openenv.train.agents.api_agent import ApiAgent  # its library takes long to import
    except ImportError as error:
        raise ConfigurationError("A model behind an address needs the package openai: pip install openai") from error
    assert settings.model is not None
    return ApiAgent(
        settings.model,
        base_url=settings.llm_endpoint,
        api_key=_api_key(str(settings.llm_endpoint)),
        actions=settings.form,
        system_prompt=settings.system_prompt,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        max_turns=settings.turn_limit,
        concurrency=sessions,
    )


def _api_key(endpoint: str) -> str | None:
    """Return the key that a variable holds for an address; ``None`` for a server that is sent none."""
    names = _KEY_VARIABLES.get(urlsplit(endpoint).hostname or "", _KEY_OF_ANY_SERVER)
    return next(filter(None, map(os.environ.get, names)), None)
