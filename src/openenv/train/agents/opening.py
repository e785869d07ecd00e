"""Opening of the agent and the environment that settings name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openenv.adapters.text import ActionText
from openenv.core.env_server.settings import environment_variables
from openenv.core.exceptions import ConfigurationError
from openenv.records.answers import AnswerRule
from openenv.records.run_folder import RunFolder
from openenv.train.agents.agent import Agent
from openenv.train.agents.player_agent import PlayerAgent, form_of, random_players, scripted_players
from openenv.train.checks import check_environment, check_model
from openenv.train.rollout.sessions import CAPACITY_WAIT_S, Sessions
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import derived_seed

if TYPE_CHECKING:
    from openenv.train.agents.api_agent import ApiAgent

__all__ = ["open_agent", "opened_rule"]


@contextmanager
def open_agent(
    settings: PlaySettings, count: int, env_vars: Mapping[str, str] | None = None
) -> Iterator[tuple[Agent, Sessions]]:
    """Open an environment, for ``count`` or fewer episodes at once, and its agent; the sessions end with the block.

    Raises:
        ConfigurationError: There is no such player or model, or the settings do not fit it.
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """
    if settings.prices is not None:
        env_vars = {**(env_vars or {}), **environment_variables({"measure_cpu": True})}
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
        with _together(settings, count, env_vars, with_tools=settings.action_form == "tools") as sessions:
            yield _player_agent(settings, sessions), sessions
        return
    check_environment(settings.base_url or settings.environment)
    if not RunFolder.of_model(Path(str(settings.model))).config.is_file():
        check_model(str(settings.model))
    from openenv.train.agents.policy_agent import StoredModel  # loads torch

    model = StoredModel.of(settings)
    with _together(settings, count, env_vars, with_tools=model.config.with_tools) as sessions:
        yield model.agent(settings, sessions), sessions


def opened_rule(settings: PlaySettings, sessions: Sessions) -> AnswerRule:
    """Return the rule for illegal answers, with the fallback of the environment that is played."""
    if settings.action_form == "tools" or sessions.tools is not None:
        return replace(settings.answer_rule, fallback=None)
    return replace(settings.answer_rule, fallback=ActionText(sessions.action, settings.fallback).fallback)


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
            f"{settings.environment} has no scripted player. Choose --player random, or a model: --model with the "
            "folder of a run or a model, 'smollm2' or an id on the Hub, or with a model's name and --llm-endpoint URL. "
            "A scripted player is named in openenv.yaml."
        )
    return PlayerAgent(
        make_player,
        lambda number, task: derived_seed(settings.seed, "player", number),
        form_of(sessions, settings.system_prompt),
        settings.turn_limit,
        settings.answer_rule,
        settings.budget,
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
        api_key=settings.api_key,
        actions=settings.action_form,
        system_prompt=settings.system_prompt,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        max_turns=settings.turn_limit,
        concurrency=sessions,
        rule=settings.answer_rule,
        budget=settings.budget,
        price=settings.token_price,
    )
