"""Errors on the wire: the ``data`` of an error message, and the faults that it lists."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from openenv.core.exceptions import InvalidRequestError, RequestError
from openenv.core.schema.json_models import model_reader
from openenv.core.wire.redaction import redact

ModelT = TypeVar("ModelT", bound=BaseModel)

LONGEST_QUOTE = 100
"""Maximum number of characters of a name in an error."""

# Maximum number of bytes of an input, and of faults, in an error.
_LONGEST_ECHO = 1_000
_MOST_FAULTS = 20
# Maximum depth of a quoted value without a JSON form; pydantic's maximum is about 250.
_DEEPEST_QUOTE = 200


def error_data(error: RequestError) -> dict[str, Any]:
    """Return an error message's ``data``, redacted for clients.

    Args:
        error: The error. If it has a traceback, which only a server with ``debug`` sets, nothing is redacted.
    """
    fields = {**error.details, "message": error.message}
    fields.pop("traceback", None)
    if error.traceback is None:
        fields = redact(_document(fields))
    else:
        fields["traceback"] = error.traceback
    return {"message": fields.pop("message"), "code": error.code, **fields}


def error_json(value: Any) -> str:
    """Return an error as JSON; values without a JSON form are replaced, half a surrogate pair by a question mark."""
    try:
        return to_json(value, inf_nan_mode="null", fallback=repr).decode()
    except ValueError:
        return to_json(_encodable(value), inf_nan_mode="null").decode()


def validated(model: type[ModelT], value: Mapping[str, Any]) -> ModelT:
    """Validate a message or an action.

    Args:
        model: The class.
        value: The fields.

    Raises:
        InvalidRequestError: The fields are invalid; ``loc`` of each entry is relative to the value.
    """
    try:
        if validates_itself(model):
            return model.model_validate(value)
        return model_reader(model)(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise InvalidRequestError("Invalid message", errors=fault_entries(error)) from None


@lru_cache(maxsize=1024)
def validates_itself(model: type[BaseModel]) -> bool:
    """Whether a class overrides ``model_validate``, as a class of actions may that stands for several others.

    Args:
        model: The class.
    """
    return getattr(model.model_validate, "__func__", None) is not getattr(BaseModel.model_validate, "__func__", None)


def fault_entries(error: ValidationError) -> list[dict[str, Any]]:
    """List the faults in pydantic's form, without large inputs and those without a JSON form.

    Args:
        error: Pydantic's error.
    """
    entries: list[dict[str, Any]] = _document(error.errors(include_context=False)[:_MOST_FAULTS])
    for entry in entries:
        entry["loc"] = [part[:LONGEST_QUOTE] if isinstance(part, str) else part for part in entry["loc"]]
        if len(to_json(entry["input"])) > _LONGEST_ECHO:
            del entry["input"]
    return entries


def _document(value: Any) -> Any:
    """Return a value as lists, dictionaries and scalars of JSON."""
    try:
        return from_json(error_json(value))
    except ValueError:  # a number with too many digits, or too many levels for the parser
        return _encodable(value)


def _encodable(value: Any, above: frozenset[int] = frozenset()) -> Any:
    """Return a form of a value that has a JSON form; ``above`` holds the ids of the containers around it."""
    if value is None or isinstance(value, int | float):
        return value
    here = above | {id(value)}
    if len(above) < len(here) <= _DEEPEST_QUOTE:  # neither in itself nor too deep
        if isinstance(value, Mapping):
            return {_encodable_text(key): _encodable(inner, here) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [_encodable(inner, here) for inner in value]
    return _encodable_text(value)


def _encodable_text(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001  # an author's own __repr__ may do anything
        text = type(value).__name__
    return text.encode(errors="replace").decode()
