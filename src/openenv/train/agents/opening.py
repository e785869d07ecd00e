"""Opening of the agent and the environment that settings name."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.agent import Agent
from openenv.train.agents.player_agent import PlayerAgent, form_of, random_players, scripted_players
from openenv.train.rollout.sessions import CAPACITY_WAIT_S, Sessions
from openenv.train.settings.names import check_environment, check_model
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import derived_seed

if TYPE_CHECKING:
    from openenv.train.agents.api_agent import ApiAgent

__all__ = ["open_agent"]

# Variables with the key of a vendor's API, and of any other server.
_KEY_VARIABLES = {
    "api.openai.com": ("OPENAI_API_KEY", "API_KEY"),
    "api.anthropic.com": ("ANTHROPIC_API_KEY", "API_KEY"),
}
_KEY_OF_ANY_SERVER = ("OPENAI_API_KEY",)


@contextmanager
def open_agent(
    settings: PlaySettings, count: int, env_vars: Mapping[str, str] | None = None
) -> Iterator[tuple[Agent, Sessions]]:
    """Open an environment, for ``count`` or fewer episodes at once, and its agent; the sessions end with the block.

    Raises:
        ConfigurationError: There is no such player or model, or the settings do not fit it.
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """
    if settings.llm_endpoint is not None:
        agent = _api_agent(settings, count)
        with Sessions.unopened(
            settings.environment,
            settings.base_url,
            max_sessions=count,
            env_vars=env_vars,
            capacity_wait_s=CAPACITY_WAIT_S,
            message_timeout_s=settings.step_timeout_s,
        ) as sessions:
            sessions.client.connect()
            yield agent, sessions
        return
    if settings.player is not None:
        with _together(settings, count, env_vars, with_tools=settings.form == "tools") as sessions:
            yield _player_agent(settings, sessions), sessions
        return
    check_environment(settings.base_url or settings.environment)
    if not (Path(str(settings.model)) / "config.yaml").is_file():
        check_model(str(settings.model))
    from openenv.train.agents.policy_agent import StoredModel  # loads torch

    model = StoredModel.of(settings)
    with _together(settings, count, env_vars, with_tools=None) as sessions:
        yield model.agent(settings, sessions), sessions


def _together(
    settings: PlaySettings, count: int, env_vars: Mapping[str, str] | None, *, with_tools: bool | None
) -> Sessions:
    """Open sessions that are stepped together, and fewer where the server holds fewer."""
    return Sessions.open(
        settings.environment,
        count,
        with_tools=with_tools,
        step_timeout_s=settings.step_timeout_s,
        env_vars=env_vars,
        base_url=settings.base_url,
        takes_fewer=True,
    )


def _player_agent(settings: PlaySettings, sessions: Sessions) -> PlayerAgent:
    make_player = random_players(sessions) if settings.player == "random" else scripted_players(sessions)
    if make_player is None:
        raise ConfigurationError(
            f"{settings.environment} has no scripted player; take the random player or a model. "
            "An environment's package names its player in openenv.yaml."
        )
    return PlayerAgent(
        make_player,
        lambda number, task: derived_seed(settings.seed, "player", number),
        form_of(sessions, settings.system_prompt),
        settings.turn_limit,
    )


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
    """Return the key that a variable holds for an address; ``None`` without one."""
    names = _KEY_VARIABLES.get(urlsplit(endpoint).hostname or "", _KEY_OF_ANY_SERVER)
    return next(filter(None, map(os.environ.get, names)), None)
