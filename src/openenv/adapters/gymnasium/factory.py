"""Classes of Gymnasium environments, made from their ids; other processes import them by their names."""

import inspect
from functools import cache
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, registry

from openenv.adapters.class_names import ARGUMENT_FAULTS, class_by_name, name_classes
from openenv.adapters.docstrings import first_paragraph, section
from openenv.adapters.gymnasium.environment import GymnasiumEnvironment, InlineGymnasiumEnvironment
from openenv.adapters.gymnasium.space_environment import ClassesOfId, make_classes
from openenv.adapters.ids import did_you_mean, import_registering, read_id
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

__all__ = ["environment_class"]

# Their steps take some microseconds each.
_QUICK = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")
_RENDER_MODES = ("ansi", "rgb_array")
# Parameter of an id for observations that are pictures, which no space declares: a map of cells has the same space.
_PICTURE = "picture"


def environment_class(env_id: str) -> type[GymnasiumEnvironment[Any, Any]]:
    """Make the class of a Gymnasium environment, to be served or used in this process.

    One environment is made and closed for its spaces.

    Args:
        env_id: Gymnasium's id, as in ``CartPole-v1``. ``module:Id-v0`` imports a module first that registers it.
            ``FrozenLake-v1?map_name=8x8&is_slippery=false`` gives ``gymnasium.make`` further arguments; each is JSON,
            or else text. ``picture=true`` is none of these: it declares the observation, a ``Box`` of ``uint8`` of the
            shape ``(height, width, 3)`` or ``(height, width, 4)``, as the pixels of a picture.

    Raises:
        EnvironmentNotFoundError: Gymnasium has no such environment; the message lists those with a similar id.
        ConfigurationError: It can't be made, or one of its spaces has no form in JSON.

    Example:
        >>> environment_class("CartPole-v1").__name__
        'CartPoleV1Environment'
    """
    environment: type[GymnasiumEnvironment[Any, Any]] = _classes_of(env_id).environment
    return environment


def __getattr__(name: str) -> type:
    """Return a class that was pickled by its name."""
    return class_by_name(__name__, name, _classes_of)


@cache
def _classes_of(env_id: str) -> ClassesOfId:
    named = read_id(env_id)
    spec = _find(named.name)
    arguments = dict(named.parameters)
    picture = arguments.pop(_PICTURE, False)
    if not isinstance(picture, bool):
        raise ConfigurationError(f"gymnasium:{env_id}: expected picture=true or picture=false, got {picture!r}.")
    env = _make(env_id, spec, arguments)
    try:
        arguments = {**_rendering(env.metadata.get("render_modes", ())), **arguments}
        classes = _classes(spec, arguments, env, picture=picture)
    finally:
        env.close()
    name_classes(classes, __name__, env_id)
    return classes


def _find(env_id: str) -> EnvSpec:
    """Look an id up as ``gymnasium.make`` does."""
    name = import_registering(env_id)
    spec = registry.get(name)
    if spec is None:
        raise EnvironmentNotFoundError(
            f"Gymnasium has no environment {name!r}.{did_you_mean(name, registry)} It knows those that are registered; "
            "to import the module that registers one, write gymnasium:MODULE:ID."
        )
    return spec


def _make(env_id: str, spec: EnvSpec, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(spec, disable_env_checker=True, **arguments)
    except (gymnasium.error.Error, *ARGUMENT_FAULTS) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"gymnasium:{env_id} can't be made: {why}") from error


def _rendering(modes: Any) -> dict[str, str]:
    """Choose how to render: as text where that is possible, which people and language models read alike."""
    mode = next((mode for mode in _RENDER_MODES if mode in modes), None)
    return {} if mode is None else {"render_mode": mode}


def _classes(spec: EnvSpec, arguments: dict[str, Any], env: gymnasium.Env[Any, Any], *, picture: bool) -> ClassesOfId:
    doc = inspect.getdoc(type(env.unwrapped)) or ""
    module = type(env.unwrapped).__module__
    return make_classes(
        InlineGymnasiumEnvironment if module.startswith(_QUICK) else GymnasiumEnvironment,
        spec.id,
        env.action_space,
        env.observation_space,
        doc=doc,
        about=section(doc, "Description") or first_paragraph(doc) or f"Gymnasium's {spec.id}.",
        picture=picture,
        arguments=arguments,
        module=module,
    )
