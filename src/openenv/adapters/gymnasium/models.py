"""Actions and observations whose one field is a value of a Gymnasium space."""

from typing import Annotated, Any, Generic, TypeVar, cast

from gymnasium import Space
from gymnasium.error import InvalidAction
from gymnasium.spaces import Box
from pydantic import Field, PlainValidator, WithJsonSchema, create_model

from openenv.adapters.gymnasium.codecs import Codec, codec_for_space
from openenv.adapters.gymnasium.space_schemas import describe_space, space_schema
from openenv.core.env_server.types import Action, Observation
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.reader import ARRAY_KEYWORD
from openenv.core.wire.array_fields import ArraysInside, NDArray

__all__ = ["GymnasiumAction", "GymnasiumObservation", "SpaceValue", "action_model", "observation_model"]

ValueT = TypeVar("ValueT")


class GymnasiumAction(Action, Generic[ValueT]):
    """An action of an environment that has a Gymnasium space; ``action_model`` makes the class of a certain space.

    Attributes:
        action: A value of the space, as JSON.
    """

    action: ValueT

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to the process that the environment runs in as checked already, and without the space."""
        return _checked_action, (self.action, self.metadata)


class GymnasiumObservation(Observation, Generic[ValueT]):
    """An observation of an environment that has a Gymnasium space; ``observation_model`` makes the class of a space.

    Attributes:
        observation: A value of the space, as JSON.
    """

    observation: ValueT


class SpaceValue:
    """Checks that JSON is a value of a space, and leaves it as it is, except for arrays of many numbers.

    These become arrays of NumPy, whether they came as such or as nested lists.

    Attributes:
        has_arrays: Whether there are such arrays.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> SpaceValue(Discrete(2))(2)
        Traceback (most recent call last):
        ...
        ValueError: expected a whole number from 0 to 1, got 2
    """

    def __init__(self, space: Space[Any]) -> None:
        self._codec = codec_for_space(space)
        self._expected = describe_space(space)
        self.has_arrays = self._codec.has_arrays

    def __call__(self, json: Any) -> Any:
        """Check a value.

        Raises:
            ValueError: It is not in the space; the message describes the space's values.
        """
        if not _is_value(self._codec, json):
            raise ValueError(f"expected {self._expected}, got {json!r:.100}")
        return self._codec.encode(self._codec.decode(json)) if self.has_arrays else json


def action_model(name: str, space: Space[Any], meaning: str = "", doc: str = "") -> type[GymnasiumAction[Any]]:
    """Make the class of a space's actions.

    Args:
        name: The class's name.
        space: The space.
        meaning: What the values mean, for people and language models; the description of the space is put before it.
        doc: Description of the environment.

    Raises:
        ConfigurationError: The space is of a kind whose values have no form in JSON here.
    """
    field = _field(space, meaning)
    model = create_model(name, __base__=GymnasiumAction[Any], __doc__=doc, action=(field, ...))
    return cast("type[GymnasiumAction[Any]]", model)


def observation_model(
    name: str, space: Space[Any], meaning: str = "", doc: str = "", *, picture: bool = False
) -> type[GymnasiumObservation[Any]]:
    """Make the class of a space's observations; ``picture`` is whether its numbers are the pixels of a picture.

    Raises:
        ConfigurationError: The space is of a kind whose values have no form in JSON here, or of another than pictures.
    """
    field = _field(space, meaning, picture=picture)
    model = create_model(name, __base__=GymnasiumObservation[Any], __doc__=doc, observation=(field, ...))
    return cast("type[GymnasiumObservation[Any]]", model)


def _field(space: Space[Any], meaning: str, *, picture: bool = False) -> Any:
    expected = describe_space(space)
    description = f"{expected[0].upper()}{expected[1:]}."
    if meaning:
        description += f"\n\n{meaning}"
    value = SpaceValue(space)
    written = space_schema(space) | (_picture_schema(space) if picture else {})
    schema, about = WithJsonSchema(written), Field(description=description)
    if value.has_arrays or picture:
        return Annotated[Any, PlainValidator(value), ArraysInside(picture), schema, about]
    return Annotated[Any, PlainValidator(value), schema, about]


def _picture_schema(space: Space[Any]) -> dict[str, Any]:
    """Return the part of a schema that declares a picture.

    Raises:
        ConfigurationError: The space is of another kind.
    """
    if not isinstance(space, Box):
        raise ConfigurationError(
            "Expected a Box of uint8 with the shape (height, width, 3) or (height, width, 4) as a picture, "
            f"got {space}."
        )
    return {ARRAY_KEYWORD: NDArray(space.dtype.name, space.shape, picture=True).keyword}


def _is_value(codec: Codec, json: Any) -> bool:
    try:
        return codec.space.contains(codec.decode(json))
    except (KeyError, TypeError, ValueError, OverflowError, InvalidAction):
        return False


def _checked_action(action: Any, metadata: dict[str, Any]) -> GymnasiumAction[Any]:
    return GymnasiumAction[Any].model_construct(action=action, metadata=metadata)
