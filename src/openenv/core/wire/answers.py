"""Answers to requests, as JSON: outcomes of a reset or a step, observations, states and pictures."""

import logging
import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from openenv.core.exceptions import EnvironmentFailedError
from openenv.core.plain_values import plain_value
from openenv.core.wire.arrays import FILE, KEY, ArrayJson, ArrayWriter, Written
from openenv.core.wire.names import FINITE_VARIABLE
from openenv.core.wire.results import ImageFile, Outcome, Picture, WebView, WrittenJson
from openenv.core.wire.types import inherits_field

logger = logging.getLogger(__name__)

# Fields that are sent beside the observation, not inside it.
_BESIDE = {"reward", "done"}
_BESIDE_OR_WRITTEN = {*_BESIDE, "metadata"}
# Maximum depth of the search for a value without a JSON form.
_DEEPEST_PATH = 10
# One of so many observations with a null in their JSON is searched for NaN and infinity: null fields are common, and a
# search of every observation would slow down steps.
_LOOKED_AT = 16
_MOST_WARNED = 100
# Characters of JSON that are written, and searched for a null, at once.
_MOST_AT_ONCE = 1024 * 1024
# To estimate a length: parts of a list or a mapping that are looked at, lists and mappings that are looked into, and
# the length of a number.
_MOST_PARTS, _MOST_LOOKED_INTO = 8, 64
_SHORT = 4
_SHORT_TYPES = {bool, int, float, type(None)}
# Kinds of NumPy's numbers that are always finite: bool, integers.
_FINITE_KINDS = ("b", "i", "u")
# Python's types of the same, and those that are no numbers.
_FINITE_TYPES = {bool, int, str, type(None)}
_with_null = count()
# Whether NaN and infinity are errors, as where an environment is validated.
_is_finite_only = os.environ.get(FINITE_VARIABLE) == "1"
_warned: set[type] = set()


def is_long(value: BaseModel | Mapping[str, Any]) -> bool:
    """Return whether the JSON of a value probably has more than a mebibyte, by a look at some of its parts.

    To write so much takes milliseconds in one piece, during which nothing else can be done on the event loop.

    Args:
        value: An observation, or a state.
    """
    length = 0
    waiting: list[tuple[Collection[Any], int]] = [(_parts_of(value), 1)]
    for parts, weight in waiting:  # which grows
        length += len(parts) * _SHORT * weight
        if length > _MOST_AT_ONCE:
            return True
        every = max(1, len(parts) // _MOST_PARTS)
        for part in islice(parts, 0, None, every):
            kind = type(part)
            if kind in _SHORT_TYPES:
                continue
            if kind is str or kind is bytes:
                length += len(part) * weight * every
            elif (kind is not dict or part) and len(waiting) < _MOST_LOOKED_INTO:
                waiting.append((_parts_of(part), weight * every))
    return length > _MOST_AT_ONCE


def _parts_of(value: Any) -> Collection[Any]:
    """Return the parts of a value that its JSON has, too; of an array, as many as it has bytes."""
    if isinstance(value, list | tuple | dict):
        return value.values() if isinstance(value, dict) else value
    if isinstance(value, BaseModel):
        return value.__dict__.values()
    return range(getattr(value, "nbytes", 0) // _SHORT)


def outcome_json(outcome: Outcome, *, always_metadata: bool = False) -> str:
    """Return ``{"observation", "reward", "done"}``, with ``"metadata"`` if there is any, as JSON.

    Args:
        outcome: Outcome of a reset or a step.
        always_metadata: Whether to write ``null`` for empty metadata, as the public server does over HTTP.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON. NaN and infinity become ``null``.
    """
    answer = written_outcome(outcome, None, always_metadata=always_metadata)
    assert isinstance(answer, str)
    return answer


def written_outcome(outcome: Outcome, arrays: ArrayWriter | None, *, always_metadata: bool = False) -> Written:
    """Return an outcome as ``outcome_json`` does, with the arrays of the observation beside the JSON.

    Args:
        outcome: Outcome of a reset or a step.
        arrays: Collects the arrays; ``None`` for nested lists in their place.
        always_metadata: As for ``outcome_json``.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON.
    """
    try:
        metadata = _dump(outcome.metadata) if outcome.metadata else "null"
        shared = metadata if outcome.has_plain_metadata and _begins_with_metadata(outcome) else None
        observation = written_observation(outcome.observation, arrays, shared)
    except (ValueError, TypeError) as error:
        raise unsendable(outcome, error) from error
    reward = outcome.reward
    # Python's text of a finite number is valid JSON, and takes a tenth of the time.
    written = repr(reward) if type(reward) in (float, int) else _dump(reward)
    done = "true" if outcome.done else "false"
    beside = f',"metadata":{metadata}' if outcome.metadata or always_metadata else ""
    if isinstance(observation, str):
        return f'{{"observation":{observation},"reward":{written},"done":{done}{beside}}}'
    text = f'{{"observation":{observation.text},"reward":{written},"done":{done}{beside}}}'
    if f'"{KEY}"' in metadata:  # which would be read as an array
        return f'{{"observation":{observation.nested()},"reward":{written},"done":{done}{beside}}}'
    return ArrayJson(text, observation.buffers)


def observation_json(observation: BaseModel | WrittenJson) -> str:
    """Return an observation as JSON, without its reward and done flag, which are sent beside it.

    Raises:
        ValueError: Some value has no form in JSON; or ``TypeError``.
    """
    shown = written_observation(observation, None)
    assert isinstance(shown, str)
    return shown


def _begins_with_metadata(outcome: Outcome) -> bool:
    """Return whether the JSON of an outcome's observation begins with the outcome's metadata."""
    observation = outcome.observation
    if isinstance(observation, WrittenJson) or observation.__dict__.get("metadata") is not outcome.metadata:
        return False
    return _writes_metadata_first(type(observation))


@lru_cache(maxsize=1024)
def _writes_metadata_first(observation_class: type[BaseModel]) -> bool:
    """Return whether the JSON of a class's observations begins with their metadata, as they are."""
    decorators = observation_class.__pydantic_decorators__
    return (
        inherits_field(observation_class, "metadata")
        and next(name for name in observation_class.model_fields if name not in _BESIDE) == "metadata"
        and not (decorators.field_serializers or decorators.model_serializers)
        and not _dumps_itself(observation_class)
    )


def _dumps_itself(model: type[BaseModel]) -> bool:
    """Whether a class overrides ``model_dump``, with which the public server writes observations and states."""
    return model.model_dump is not BaseModel.model_dump


def written_observation(
    observation: BaseModel | WrittenJson, arrays: ArrayWriter | None, metadata: str | None = None
) -> Written:
    """Return an observation as ``observation_json`` does, with its arrays beside the JSON.

    Args:
        observation: The observation.
        arrays: Collects the arrays; ``None`` for nested lists in their place.
        metadata: The JSON of the observation's metadata, with which its own JSON begins; ``None`` to write them, too.

    Raises:
        ValueError: Some value has no form in JSON; or ``TypeError``.
    """
    if isinstance(observation, WrittenJson):
        return observation.text if arrays is None else observation.json
    if _is_finite_only:
        _refuse_non_finite(_null_in_json(observation, arrays))
    if _dumps_itself(type(observation)):
        return _dump_of(observation, exclude=_BESIDE)
    # As in model_dump_json, but without its checks of arguments, which would double the time.
    serializer = type(observation).__pydantic_serializer__
    beside = _BESIDE if metadata is None else _BESIDE_OR_WRITTEN
    try:
        json = serializer.to_json(observation, exclude=beside, warnings=False, fallback=plain_value, context=arrays)
    except Exception:
        if arrays is not None:
            arrays.discard()
        raise
    text = json.decode()
    if metadata is not None:
        others = text[1:-1]
        text = f'{{"metadata":{metadata},{others}}}' if others else f'{{"metadata":{metadata}}}'
    if len(text) <= _MOST_AT_ONCE and "null" in text and next(_with_null) % _LOOKED_AT == 0:
        _warn_of_non_finite(observation)
    if arrays is None:
        return text
    found = arrays.finished(text)
    return written_observation(observation, None) if found is None else found


def state_json(state: Any) -> str:
    """Return a state as JSON: a pydantic model, a dataclass or a mapping.

    Raises:
        EnvironmentFailedError: The state is of another type, or some value has no form in JSON.
    """
    if isinstance(state, WrittenJson):
        return state.text
    if not isinstance(state, BaseModel | Mapping) and not is_dataclass(state):
        raise EnvironmentFailedError(
            f"The state is of type {type(state).__name__}; expected a pydantic model, a dataclass or a mapping."
        )
    try:
        if _is_finite_only:
            _refuse_non_finite(state)
        if isinstance(state, BaseModel) and _dumps_itself(type(state)):
            return _dump_of(state)
        if isinstance(state, BaseModel):
            return state.model_dump_json(warnings=False, fallback=plain_value)
        return _dump(state)
    except (ValueError, TypeError) as error:
        path = _unsendable_path(state)
        where = type(state).__name__ if path is None else f"{type(state).__name__}.{path}"
        message = f"The state cannot be sent as JSON: {where}: {error}{_advice(error)}"
        logger.error("%s", message)
        raise EnvironmentFailedError(message) from error


def picture_json(picture: Picture | ImageFile | WebView | WrittenJson | None) -> str:
    """Return a picture or a view as JSON; an empty object for ``None``."""
    written = written_picture(picture, None)
    assert isinstance(written, str)
    return written


def written_picture(picture: Picture | ImageFile | WebView | WrittenJson | None, arrays: ArrayWriter | None) -> Written:
    """Return a picture or a view as ``picture_json`` does, with the file of an image beside the JSON.

    Args:
        picture: The picture, or the view.
        arrays: Collects the file; ``None`` for base64 in its place.
    """
    if isinstance(picture, WrittenJson):
        return picture.text if arrays is None else picture.json
    if picture is None:
        return "{}"
    if not isinstance(picture, ImageFile):
        return picture.model_dump_json()
    if arrays is None:
        return picture.picture.model_dump_json()
    file = arrays.add(FILE, (len(picture.image),), picture.image)
    written = arrays.finished(_dump({"media_type": picture.media_type, "content": file}))
    assert written is not None, "the JSON of a picture holds one array"
    return written


def unsendable(outcome: Outcome, error: Exception) -> EnvironmentFailedError:
    """Return the error for an outcome with a value that has no form in JSON, and log it.

    Args:
        outcome: Outcome of a reset or a step.
        error: The serializer's error.
    """
    observation = outcome.observation
    fields = {} if isinstance(observation, WrittenJson) else dict(observation)
    path = _unsendable_path({**fields, "metadata": outcome.metadata})
    name = "the observation" if isinstance(observation, WrittenJson) else type(observation).__name__
    where = name if path is None else f"{name}.{path}"
    message = f"The observation cannot be sent as JSON: {where}: {error}{_advice(error)}"
    logger.error("%s", message)
    return EnvironmentFailedError(message)


def _advice(error: Exception) -> str:
    """Return what to do about a value without a JSON form, where that is known."""
    if "invalid utf-8" not in str(error):
        return ""
    return '. Bytes are sent as text: declare Annotated[bytes, MediaType("image/png")], or set ser_json_bytes="base64".'


def _unsendable_path(value: Any, depth: int = 0) -> str | None:
    """Return the path of the first part of a value without a JSON form; ``None`` if none is found, or it is deep."""
    if isinstance(value, BaseModel):
        value = dict(value)
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    for key, each in inner:
        if _has_json(each):
            continue
        below = _unsendable_path(each, depth + 1) if depth < _DEEPEST_PATH else None
        return str(key) if below is None else f"{key}.{below}"
    return None


def _has_json(value: Any) -> bool:
    try:
        _dump(value)
    except (ValueError, TypeError):
        return False
    return True


def _warn_of_non_finite(observation: BaseModel) -> None:
    """Log a warning, once for each class, that NaN or infinity is sent as ``null``."""
    if type(observation) in _warned or len(_warned) >= _MOST_WARNED:
        return
    path = _non_finite_path(dict(observation))
    if path is not None:
        _warned.add(type(observation))
        logger.warning(
            "%s.%s is not finite, which JSON has no number for: clients get null. Leave it out, or clip it.",
            type(observation).__name__,
            path,
        )


def _null_in_json(observation: BaseModel, arrays: ArrayWriter | None) -> dict[str, Any]:
    """Return the fields whose NaN and infinity would be null: not those that are sent as arrays, nor metadata."""
    fields = {name: value for name, value in observation if name not in _BESIDE_OR_WRITTEN}
    np = sys.modules.get("numpy")
    if np is None or arrays is None:
        return fields
    return {name: value for name, value in fields.items() if not isinstance(value, np.ndarray)}


def _refuse_non_finite(value: Any) -> None:
    """Raise ``ValueError`` where a part of an observation or a state is NaN or infinity, and no array."""
    path = _non_finite_path(value)
    if path is not None:
        raise ValueError(f"{path} is not finite, and JSON has no number for NaN and infinity")


def _non_finite_path(value: Any, depth: int = 0) -> str | None:
    """Return the path of the first NaN or infinity in a value; ``None`` if there is none, or it is too deep."""
    if type(value) in _FINITE_TYPES or _is_finite_array(value) or _is_finite_list(value):
        return None
    if isinstance(value, BaseModel):
        value = dict(value)
    elif not isinstance(value, Mapping | list | tuple | float):
        with suppress(PydanticSerializationError):
            value = plain_value(value)
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    if depth == _DEEPEST_PATH or not isinstance(value, Mapping | list | tuple):
        return None
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        below = _non_finite_path(inner, depth + 1)
        if below is not None:
            return f"{key}.{below}" if below else str(key)
    return None


def _is_finite_array(value: Any) -> bool:
    """Whether a value is an array of NumPy without NaN and infinity: to visit each number of a screen takes seconds."""
    np = sys.modules.get("numpy")
    if np is None or not isinstance(value, np.ndarray):
        return False
    kind = value.dtype.kind
    return kind in _FINITE_KINDS or (kind == "f" and bool(np.isfinite(value).all()))


def _is_finite_list(value: Any) -> bool:
    """Whether a value is a list of numbers or texts without NaN and infinity, which may be the pixels of a screen."""
    if not isinstance(value, list | tuple):
        return False
    types = set(map(type, value))
    return types <= _FINITE_TYPES or (types == {float} and all(map(math.isfinite, value)))


def _dump_of(model: BaseModel, **arguments: Any) -> str:
    """Return what the ``model_dump`` of a class's own makes of a model, as JSON.

    It is called as the public server calls it, so it may have any signature that works there, and gets values of
    Python. Of the class's settings for JSON, those of bytes and durations hold.

    Raises:
        ValueError: The method raised, or some value has no form in JSON; or ``TypeError``.
    """
    try:
        dumped = model.model_dump(**arguments)
    except Exception as error:  # an author's own method may raise anything
        raise ValueError(f"its model_dump raised {type(error).__name__}: {error}") from error
    config = model.model_config
    return to_json(
        dumped,
        inf_nan_mode="null",
        fallback=plain_value,
        bytes_mode=config.get("ser_json_bytes", "utf8"),
        timedelta_mode=config.get("ser_json_timedelta", "iso8601"),
    ).decode()


def _dump(value: Any) -> str:
    return to_json(value, inf_nan_mode="null", fallback=plain_value).decode()
