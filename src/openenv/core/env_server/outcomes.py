"""What a reset or step gave, in one form, whichever of the accepted forms the author returned."""

import math
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.types import Observation, Scalar
from openenv.core.exceptions import EnvironmentFailedError

_FORMS = (
    "an observation (a pydantic model), (observation, info), (observation, reward, done[, info]) "
    "or (observation, reward, terminated, truncated, info)"
)


@dataclass(slots=True, frozen=True)
class WrittenJson:
    """An observation or a state that another process has written as JSON already."""

    text: str


@dataclass(slots=True)
class Outcome:
    """An observation with its reward, its done flag and what was reported beside it."""

    observation: BaseModel | WrittenJson
    reward: Scalar | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


def outcome_of(returned: Any) -> Outcome:
    """Bring what ``reset`` or ``step`` returned into one form.

    Args:
        returned: An observation, or a tuple in one of the forms that ``Environment`` lists. Of Gymnasium's five values,
            ``terminated`` and ``truncated`` are kept apart in the metadata, and ``done`` is either. An outcome stays
            what it is.

    Raises:
        EnvironmentFailedError: It has none of the forms, or the reward is no finite number.
    """
    if isinstance(returned, Observation):
        reward = returned.reward
        if type(reward) is not float or not math.isfinite(reward):
            reward = _finite(reward)
        return Outcome(returned, reward, returned.done, returned.metadata)
    if isinstance(returned, BaseModel):
        return _from_plain_model(returned)
    if isinstance(returned, tuple) and returned and isinstance(returned[0], BaseModel):
        return _from_tuple(returned)
    if isinstance(returned, Outcome):
        return returned
    if isinstance(returned, tuple):
        shape = ", ".join(type(value).__name__ for value in returned)
        raise EnvironmentFailedError(f"The environment returned ({shape}); expected {_FORMS}.")
    raise EnvironmentFailedError(f"The environment returned {type(returned).__name__}; expected {_FORMS}.")


def _from_plain_model(observation: BaseModel) -> Outcome:
    """A model that does not inherit from ``Observation`` may still have some of its fields."""
    metadata = getattr(observation, "metadata", None)
    return Outcome(
        observation,
        _finite(getattr(observation, "reward", None)),
        _flag(getattr(observation, "done", False)),
        metadata if isinstance(metadata, dict) else {},
    )


def _from_tuple(returned: tuple[Any, ...]) -> Outcome:
    own = outcome_of(returned[0])
    match returned[1:]:
        case (dict() as info,):
            return Outcome(own.observation, own.reward, own.done, own.metadata | info)
        case (reward, done):
            return Outcome(own.observation, _finite(reward), _flag(done), own.metadata)
        case (reward, done, dict() as info):
            return Outcome(own.observation, _finite(reward), _flag(done), own.metadata | info)
        case (reward, terminated, truncated, dict() as info):
            ends = {"terminated": _flag(terminated), "truncated": _flag(truncated)}
            return Outcome(own.observation, _finite(reward), any(ends.values()), own.metadata | info | ends)
    shape = ", ".join(type(value).__name__ for value in returned)
    raise EnvironmentFailedError(f"The environment returned ({shape}); expected {_FORMS}.")


def _finite(reward: Any) -> Scalar | None:
    """Check a reward. An integer stays one, since the public wire tells them apart."""
    if reward is None or isinstance(reward, bool) or (type(reward) is float and math.isfinite(reward)):
        return reward
    if isinstance(reward, str | bytes):
        raise EnvironmentFailedError(f"The reward is {reward!r:.100}; expected a number or None.")
    try:
        number = float(reward)  # numpy and torch scalars included
    except (TypeError, ValueError, RuntimeError):
        raise EnvironmentFailedError(f"The reward is {reward!r:.100}; expected a number or None.") from None
    except OverflowError:  # an integer that no other program could read as a number
        number = math.inf
    if not math.isfinite(number):
        raise EnvironmentFailedError(f"The reward is {number}; expected a finite number or None.")
    return reward if isinstance(reward, int) else number


def _flag(value: Any) -> bool:
    """Check a done flag, which may be a numpy or torch scalar."""
    if isinstance(value, bool):
        return value
    try:
        return bool(value)
    except (TypeError, ValueError, RuntimeError):
        raise EnvironmentFailedError(f"The done flag is {value!r:.100}; expected true or false.") from None
