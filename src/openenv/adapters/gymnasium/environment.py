"""A Gymnasium environment as one to serve."""

from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import gymnasium
import numpy as np

from openenv.adapters.gymnasium.codecs import Codec
from openenv.adapters.gymnasium.copying import deep_copy
from openenv.adapters.gymnasium.infos import plain_info
from openenv.adapters.gymnasium.models import GymnasiumAction, GymnasiumObservation
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.exceptions import ConfigurationError
from openenv.core.plain_values import single_value

__all__ = ["GymnasiumEnvironment"]

ActT = TypeVar("ActT", bound=GymnasiumAction[Any])
ObsT = TypeVar("ObsT", bound=GymnasiumObservation[Any])
Step = tuple[ObsT, float, bool, bool, dict[str, Any]]


class GymnasiumEnvironment(Environment[ActT, ObsT, State], Generic[ActT, ObsT]):
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

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    id: ClassVar[str]
    """Gymnasium's id."""

    arguments: ClassVar[dict[str, Any]]
    """What ``gymnasium.make`` is given beside the id."""

    module: ClassVar[str]
    """Module of the class of Gymnasium's environment."""

    description: ClassVar[str]
    """What the environment is, in its author's words."""

    action_codec: ClassVar[Codec]
    observation_codec: ClassVar[Codec]

    blank: ClassVar[GymnasiumObservation[Any]]
    """An observation to be filled in: a copy costs a fifth of what making one does."""

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(type(self), "id"):
            raise ConfigurationError(
                "GymnasiumEnvironment is of no environment in particular; make the class of one with "
                'openenv.adapters.gymnasium.environment_class("CartPole-v1").'
            )
        self._env = gymnasium.make(self.id, disable_env_checker=True, **self.arguments)
        self._episode_id: str | None = None
        self._steps = 0

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

    @property
    def state(self) -> State:
        """The episode's name and its steps so far."""
        return State(episode_id=self._episode_id, step_count=self._steps)

    def render(self) -> str | np.ndarray[Any, Any] | None:
        """Show where the episode stands: text where the environment can, else a picture of shape (height, width, 3)."""
        if self._env.render_mode is None:
            return None
        return cast("str | np.ndarray[Any, Any] | None", self._env.render())

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self._env.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Say what the environment is, in its author's words."""
        return EnvironmentMetadata(name=f"gymnasium:{self.id}", description=self.description)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy it with all that its future depends on, or refuse."""
        return deep_copy(self, self._env.unwrapped, memo)

    def _observation(self, value: Any) -> ObsT:
        """Make an observation without checking it: its space is the environment's own promise."""
        filled_in = {"observation": self.observation_codec.encode(value), "metadata": {}}
        return cast("ObsT", self.blank.model_copy(update=filled_in))


class InlineGymnasiumEnvironment(GymnasiumEnvironment[ActT, ObsT]):
    """One whose steps take microseconds, which run fastest on the server's event loop."""

    BLOCKING: ClassVar[bool] = False
