"""Environments whose actions and observations are values of a Gymnasium space, with classes that are made by id."""

import copy
from dataclasses import dataclass
from types import new_class
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from gymnasium import Space
from gymnasium.utils import EzPickle

from openenv.adapters.docstrings import section
from openenv.adapters.gymnasium.codecs import Codec, codec_for_space
from openenv.adapters.gymnasium.models import GymnasiumAction, GymnasiumObservation, action_model, observation_model
from openenv.adapters.ids import class_name
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError

ActT = TypeVar("ActT", bound=GymnasiumAction[Any])
ObsT = TypeVar("ObsT", bound=GymnasiumObservation[Any])
Step = tuple[ObsT, float, bool, bool, dict[str, Any]]


class SpaceEnvironment(Environment[ActT, ObsT, State], Generic[ActT, ObsT]):
    """Environment of Gymnasium or PettingZoo; ``make_classes`` makes the class of an id."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    library: ClassVar[str]
    """Prefix of the library's environments, such as ``gymnasium``."""

    example_id: ClassVar[str]
    """Id of such an environment."""

    id: ClassVar[str]
    """The library's id of the environment."""

    arguments: ClassVar[dict[str, Any]]
    """Arguments of the library's ``make`` beside the id."""

    description: ClassVar[str]
    """Description of the environment, in its author's words."""

    action_codec: ClassVar[Codec]
    observation_codec: ClassVar[Codec]

    blank: ClassVar[GymnasiumObservation[Any]]
    """An observation to be filled in: a copy costs a fifth of a new observation."""

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(type(self), "id"):
            raise ConfigurationError(
                f"{type(self).__name__} is the base of the classes of all environments; make the class of one with "
                f'openenv.adapters.{self.library}.environment_class("{self.example_id}").'
            )
        self._env: Any = self._open()
        self._episode_id: str | None = None
        self._steps = 0

    def _open(self) -> Any:
        """Make the library's environment."""
        raise NotImplementedError

    @property
    def state(self) -> State:
        """The episode's name and the client's steps so far."""
        return State(episode_id=self._episode_id, step_count=self._steps)

    def render(self) -> str | np.ndarray[Any, Any] | None:
        """Render the episode as it is now: text where the environment can, else a picture (height, width, 3)."""
        if self._env.render_mode is None:
            return None
        return cast("str | np.ndarray[Any, Any] | None", self._env.render())

    def close(self) -> None:
        """Close the library's environment."""
        self._env.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the environment's name, and its description in its author's words."""
        return EnvironmentMetadata(name=f"{self.library}:{self.id}", description=self.description)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy it with all that its future depends on.

        Raises:
            EnvironmentFailedError: The copy would be a new one that was never reset: that is how ``EzPickle`` pickles
                environments, and ``copy.deepcopy`` does as pickling does.
        """
        unwrapped = self._env.unwrapped
        if isinstance(unwrapped, EzPickle):
            raise EnvironmentFailedError(
                f"a copy of {type(unwrapped).__name__} would start from the beginning, as EzPickle makes it"
            )
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def _observation(self, value: Any) -> ObsT:
        """Make an observation without a check: its space is the library's promise."""
        filled_in = {"observation": self.observation_codec.encode(value), "metadata": {}}
        return cast("ObsT", self.blank.model_copy(update=filled_in))


@dataclass(frozen=True)
class ClassesOfId:
    """Classes that are made from an id, by their roles."""

    environment: type[Any]
    action: type[GymnasiumAction[Any]]
    observation: type[GymnasiumObservation[Any]]


def make_classes(
    base: type[SpaceEnvironment[Any, Any]],
    env_id: str,
    action_space: Space[Any],
    observation_space: Space[Any],
    *,
    doc: str,
    about: str,
    picture: bool = False,
    **attributes: Any,
) -> ClassesOfId:
    """Make the classes of an environment, of its actions and of its observations, with the author's texts."""
    name = class_name(env_id)
    action = action_model(f"{name}Action", action_space, section(doc, "Action Space"), about)
    seen = section(doc, "Observation Space")
    observation = observation_model(f"{name}Observation", observation_space, seen, about, picture=picture)
    members = {
        "__doc__": about,
        "id": env_id,
        "description": about,
        "action_codec": codec_for_space(action_space),
        "observation_codec": codec_for_space(observation_space),
        "blank": observation.model_construct(observation=None),
        **attributes,
    }
    parent: Any = base
    environment = new_class(
        f"{name}Environment", (parent[action, observation],), exec_body=lambda body: body.update(members)
    )
    return ClassesOfId(environment, action, observation)
