"""A Gymnasium environment as an environment to serve."""

from typing import Any, ClassVar

import gymnasium

from openenv.adapters.gymnasium.infos import plain_info
from openenv.adapters.gymnasium.space_environment import ActT, ObsT, SpaceEnvironment, Step
from openenv.core.plain_values import single_value

__all__ = ["GymnasiumEnvironment"]


class GymnasiumEnvironment(SpaceEnvironment[ActT, ObsT]):
    """A Gymnasium environment, to be served; ``environment_class`` makes the class for an id.

    Actions have the one field ``action``, observations ``observation``: values of the two spaces as JSON. Rewards,
    ``terminated``, ``truncated`` and infos are Gymnasium's.

    Example:
        >>> from openenv.adapters.gymnasium import environment_class
        >>> env = environment_class("CliffWalking-v1")()
        >>> env.reset(seed=1)[0].observation
        36
        >>> env.close()
    """

    library: ClassVar[str] = "gymnasium"
    example_id: ClassVar[str] = "CartPole-v1"

    module: ClassVar[str]
    """Module of the class of Gymnasium's environment."""

    def _open(self) -> Any:
        return gymnasium.make(self.id, disable_env_checker=True, **self.arguments)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> tuple[ObsT, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Makes this episode repeatable, and those that follow it without a seed.
            episode_id: Names the episode.
            **options: The environment's own options.
        """
        self._episode_id, self._steps = episode_id, 0
        value, info = self._env.reset(seed=seed, options=options or None)
        return self._observation(value), plain_info(info)

    def step(self, action: ActT) -> Step[ObsT]:
        """Do one action; returns Gymnasium's five values."""
        value, reward, terminated, truncated, info = self._env.step(self.action_codec.decode(action.action))
        self._steps += 1
        number = float(single_value(reward))
        return self._observation(value), number, bool(terminated), bool(truncated), plain_info(info)


class InlineGymnasiumEnvironment(GymnasiumEnvironment[ActT, ObsT]):
    """Environment whose steps take microseconds, which run fastest on the server's event loop."""

    BLOCKING: ClassVar[bool] = False
