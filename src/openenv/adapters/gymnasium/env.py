"""One session as a ``gymnasium.Env``."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import gymnasium
from gymnasium import Space

from openenv.adapters.gymnasium.conversion import make_conversion, report_of
from openenv.adapters.gymnasium.opening import Playable, open_client

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """A served environment for code that steps one Gymnasium environment at a time.

    The spaces follow from the schemas that the server publishes, as `openenv.adapters.gymnasium.spaces` lists.
    Many environments at once are faster as a `GymnasiumVectorEnv`.

    Args:
        environment: Name of an installed environment, its folder, a server's URL, or a client. A server that is started
            for a name or folder ends with ``close``; a client stays open.
        action_space: A space of your own. Its values are sent as they are, unless ``encode_action`` is given too.
        observation_space: A space of your own. Observations are used as they are, unless ``decode_observation`` is
            given too.
        encode_action: Makes an action from a value of the action space: a dict of its fields or a model, as the client
            takes it.
        decode_observation: Makes a value of the observation space from an observation: a dict, or what the client
            gives.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
        ConnectionFailedError: There is no server at the URL.
        ProviderError: The server could not be started.
        ConfigurationError: An action or observation has no space; the message names the field and the remedy.

    Example::

        env = GymnasiumEnv("catch")
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        env.close()
    """

    def __init__(
        self,
        environment: Playable,
        *,
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        encode_action: Callable[[Any], Any] | None = None,
        decode_observation: Callable[[Any], Any] | None = None,
    ) -> None:
        self.metadata = {"render_modes": []}
        with ExitStack() as opened:
            client = open_client(environment, 1, opened, arrays=decode_observation is None)
            self._client = client.sync().connect()
            self._conversion = make_conversion(
                client, action_space, observation_space, encode_action, decode_observation
            )
            self._opened = opened.pop_all()
        self.action_space = self._conversion.action_space
        self.observation_space = self._conversion.observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Makes the episode repeatable.
            options: The task's parameters, as the environment's ``reset`` takes them.

        Returns:
            The first observation, and what the environment reported beside it.

        Raises:
            OpenEnvError: The server refused, the environment failed, or the connection went.
        """
        super().reset(seed=seed)
        arguments = dict(options or {})
        if seed is not None:
            arguments["seed"] = int(seed)
        result = self._client.reset(**arguments)
        *_, info = report_of(result)
        return self._conversion.decode_observation(result.observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do one action.

        Args:
            action: A value of the action space.

        Returns:
            Observation, reward (0.0 where a step before the end has none), whether the episode ended by itself
            (terminated) or was cut off (truncated), and what the environment reported beside these.

        Raises:
            MissingRewardError: The step ended the episode without a reward, which is no reward of 0.
            OpenEnvError: The action was refused, the environment failed, or the connection went.
        """
        result = self._client.step(self._conversion.encode_action(action))
        observation = self._conversion.decode_observation(result.observation)
        return observation, result.counted_reward, *report_of(result)

    def close(self) -> None:
        """End the session, and the server if it was started for it. A client that was given stays as it is."""
        self._opened.close()
