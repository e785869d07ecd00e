"""A client's actions, observations and results as Gymnasium has them, and back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import Space
from pydantic import BaseModel
from pydantic_core import to_json

from openenv.adapters.gymnasium.codecs import Codec, FieldCodec, FieldsCodec, codec_for_space
from openenv.adapters.gymnasium.infos import restored_info
from openenv.adapters.gymnasium.spaces import action_codec, action_fields, observation_codec, observation_fields
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError, InvalidAnswerError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.plain_values import plain_value
from openenv.core.typed_client import TypedEnvClient

Client = EnvClient[Any, Any, Any]
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Conversion:
    """Conversion of values of two spaces to a client's actions, and of its observations to values.

    Attributes:
        action_space: The space of one environment's actions.
        observation_space: The space of one environment's observations.
        encode_action: Makes an action from a value of the action space.
        decode_observation: Makes a value of the observation space from an observation.
    """

    action_space: Space[Any]
    observation_space: Space[Any]
    encode_action: Callable[[Any], Any]
    decode_observation: Callable[[Any], Any]


def make_conversion(
    client: Client,
    action_space: Space[Any] | None = None,
    observation_space: Space[Any] | None = None,
    encode_action: Callable[[Any], Any] | None = None,
    decode_observation: Callable[[Any], Any] | None = None,
) -> Conversion:
    """Make the parts that are not given from the schemas that the server publishes.

    Raises:
        ConfigurationError: A field has no space, or does not fit the given one.
        ConnectionFailedError: The server has no schemas.
    """
    if action_space is None or encode_action is None:
        codec = _codec(action_space, client.sync().schemas()["action"], action_codec, action_fields)
        action_space = action_space or codec.space
        encode_action = encode_action or ActionEncoder(codec, client)
    if observation_space is None or decode_observation is None:
        codec = _codec(observation_space, client.sync().schemas()["observation"], observation_codec, observation_fields)
        observation_space = observation_space or codec.space
        decode_observation = decode_observation or ObservationDecoder(codec)
    return Conversion(action_space, observation_space, encode_action, decode_observation)


def _codec(
    space: Space[Any] | None,
    schema: Schema,
    codec_for_schema: Callable[[Schema], Codec],
    fields_of: Callable[[Schema], Mapping[str, Schema]],
) -> Codec:
    """Make the codec for a schema or, where a space is given, for the field or fields that it is the space of."""
    if space is None:
        return codec_for_schema(schema)
    codec = codec_for_space(space)
    if isinstance(codec, FieldsCodec):
        return codec
    fields = list(fields_of(schema))
    if len(fields) != 1:
        raise ConfigurationError(
            f"Expected a Dict space with the fields {', '.join(fields) or '(there are none)'} "
            f"of {schema.get('title', 'the schema')}, got {space}. For another space, pass a converter as well: "
            "encode_action or decode_observation."
        )
    return FieldCodec(fields[0], codec)


class ActionEncoder:
    """Makes a client's action from a value of the action space.

    Args:
        codec: Makes the action's fields.
        client: Client that is passed the action, and has its class.

    Raises:
        ConfigurationError: The client has no class of actions.
    """

    def __init__(self, codec: Codec, client: Client) -> None:
        if not isinstance(client, GenericEnvClient | TypedEnvClient):
            raise ConfigurationError(
                f"{type(client).__name__} has no class of its actions. Pass encode_action=, which makes "
                "one from a value of the action space, or the server's address instead of the client."
            )
        self._encode = codec.encode
        self._model = client.action_class if isinstance(client, TypedEnvClient) else None

    def __call__(self, value: Any) -> Any:
        """Make an action."""
        fields = self._encode(value)
        return fields if self._model is None else self._model.model_validate_json(to_json(fields, fallback=plain_value))


class ObservationDecoder:
    """Makes a value of the observation space from a client's observation."""

    def __init__(self, codec: Codec) -> None:
        self._decode = codec.decode

    def __call__(self, observation: Any) -> Any:
        """Make a value.

        Raises:
            ConfigurationError: The observation is neither a model nor a dict.
            InvalidAnswerError: It does not fit the space.
        """
        fields = (
            observation.model_dump(mode="json", by_alias=True) if isinstance(observation, BaseModel) else observation
        )
        if not isinstance(fields, Mapping):
            raise ConfigurationError(
                f"Expected the client to give observations as pydantic models or dicts, got {type(fields).__name__}. "
                "Pass decode_observation=, which makes a value of the observation space from one."
            )
        try:
            return self._decode(fields)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise InvalidAnswerError(
                f"The observation {dict(fields)!r:.200} does not fit its schema: {reason}."
            ) from error


def report_of(result: StepResult[Any]) -> tuple[bool, bool, dict[str, Any]]:
    """Return whether the episode terminated, whether it was truncated, and what was reported beside the observation.

    An environment that returns Gymnasium's five values has both flags in its metadata. Any other one ends by
    terminating.
    """
    info = restored_info(result.metadata or {})
    terminated, truncated = info.get("terminated"), info.get("truncated")
    if isinstance(terminated, bool) and isinstance(truncated, bool):
        del info["terminated"], info["truncated"]
        return terminated, truncated, info
    return result.done, False, info
