"""A served environment as a text environment of SkyRL-Gym."""

import atexit
import json
import sys
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from openenv.adapters.text import ActionText, observation_text
from openenv.auto.discovery import located
from openenv.auto.making import server_of
from openenv.auto.target import PLAYED, Target, TargetKind
from openenv.core.client.client import authorized_headers
from openenv.core.client.server_api import fetch_schemas
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import ListToolsAction
from openenv.core.exceptions import ConfigurationError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

__all__ = ["ServedTextEnv"]

Client = SyncEnvClient[Any, Any, Any]

_TOOL_CALL = ["tool_name", "arguments"]

_servers_lock = Lock()


class ServedTextEnv(BaseTextEnv):  # type: ignore[misc]  # SkyRL-Gym has no types
    """One episode of a served environment, as a conversation.

    SkyRL owns the loop: it has the model answer and calls `step`, so this translates and plays nothing by itself.

    The environment's text is the user's message, the model's message is the action, as `openenv.adapters.text` has
    it: the whole text where an action is one text, one of the choices where it has few, else a JSON object. A tool is
    called by ``{"tool_name": ..., "arguments": {...}}``. A reply that is no action is not sent; the model is shown why,
    and the turn counts.

    Each has a connection of its own. Where ``env_name`` is no URL, the environments of a process share a server, which
    ends with it.

    Args:
        env_config: Settings for every task.
        extras: The task's own, which go before those. Of either, ``env_name`` is the environment: a server's URL, a
            name, a folder or ``PREFIX:ID``; ``reset`` has the arguments of its ``reset``, such as a seed; ``max_turns``
            is the number of replies after which the conversation ends in any case. Other entries are ignored.

    Raises:
        ConfigurationError: There is no ``env_name``.
        EnvironmentNotFoundError: There is no such environment.

    Example::

        skyrl_gym.register("openenv", "openenv.adapters.skyrl:ServedTextEnv")
        env = skyrl_gym.make("openenv", extras={"env_name": "http://localhost:8000", "reset": {"seed": 1}})
        prompt, metadata = env.init([{"role": "system", "content": "You play Wordle."}])
        output = env.step("crane")
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        settings = {**(env_config or {}), **(extras or {})}
        name = settings.get("env_name")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                'Expected extras or env_config to have the environment, as in {"env_name": "http://localhost:8000"}; '
                f"got {name!r}."
            )
        self.max_turns = int(settings.get("max_turns") or sys.maxsize)
        self._reset_arguments = dict(settings.get("reset") or {})
        with _servers_lock:
            server = _found(name)
        self._actions = server.actions
        self._session: Client = GenericEnvClient(base_url=server.url, token=server.token).sync()
        self._earned = 0.0
        self._refused = 0

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """Start the episode.

        Args:
            prompt: Begin of the conversation.

        Returns:
            The prompt, and after it what the environment shows and how to act; and its report.

        Raises:
            OpenEnvError: The server refused, the environment failed, or the connection went.
        """
        self._session.connect()
        result = self._session.reset(**self._reset_arguments)
        self.turns, self._earned, self._refused = 0, 0.0, 0
        shown = "\n\n".join(part for part in (_text_of(result), self._instructions()) if part)
        return [*prompt, _message(shown)], dict(result.metadata or {})

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Send the model's text as an action.

        Args:
            action: The model's text.

        Raises:
            MissingRewardError: The step ended the episode without a reward, which is no reward of 0.
            OpenEnvError: The environment failed, or the connection went.
        """
        self.turns += 1
        reading = self._actions.read(action)
        if not reading.legal:
            return self._refusal(str(reading.problem))
        try:
            result = self._session.step(reading.action)
        except RequestRejectedError as error:
            return self._refusal(str(error))
        reward = result.counted_reward
        self._earned += reward
        done = result.done or self.turns >= self.max_turns
        return BaseTextEnvStepOutput(
            observations=[] if done else [_message(_text_of(result))],
            reward=reward,
            done=done,
            metadata=dict(result.metadata or {}),
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return the turns, those among them that were no action, and the sum of the rewards."""
        return {"turns": self.turns, "refused": self._refused, "reward": self._earned}

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _refusal(self, problem: str) -> BaseTextEnvStepOutput:
        self._refused += 1
        done = self.turns >= self.max_turns
        refusal = _message(f"That was refused: {problem}\n\n{self._actions.instructions()}")
        return BaseTextEnvStepOutput(
            observations=[] if done else [refusal], reward=0.0, done=done, metadata={"problem": problem}
        )

    def _instructions(self) -> str:
        if not _is_tool_call(self._actions.schema):
            return self._actions.instructions()
        listed = self._session.step(ListToolsAction().model_dump()).observation["tools"]
        tools = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in listed)
        return f"The tools that there are:\n{tools}\n\n{self._actions.instructions()}"


class _Server(NamedTuple):
    """An environment's server.

    Attributes:
        url: Its address.
        token: The token that was made for it; ``None`` for that in ``OPENENV_TOKEN``.
        actions: Text form of its environment's actions.
    """

    url: str
    token: str | None
    actions: ActionText


@cache
def _found(name: str) -> _Server:
    """Return an environment's server, started if need be."""
    target = located(Target.of(name).required(PLAYED, "ServedTextEnv"))
    url, token = (target.text, None) if target.kind is TargetKind.ADDRESS else _started(target)
    schema = fetch_schemas(url, authorized_headers(None, token))["action"]
    if _is_tool_call(schema):
        schema = {**schema, "required": _TOOL_CALL}  # without this, a tool's name alone would be a call
    return _Server(url, token, ActionText(schema))


def _started(target: Target) -> tuple[str, str | None]:
    """Start a server, which ends with this process, and return its address and its token."""
    provider = server_of(target)
    atexit.register(provider.shut_down)
    return provider.launch(), provider.token


def _is_tool_call(schema: Mapping[str, Any]) -> bool:
    return set(_TOOL_CALL) <= set(schema.get("properties", {}))


def _text_of(result: StepResult[Any]) -> str:
    return observation_text(result.observation)


def _message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
