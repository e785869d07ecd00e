"""Checks what a reset is passed against what an environment's ``reset`` takes, as its server publishes it.

A typing mistake in a parameter's name would otherwise start another episode than the one that was meant.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.hints import hint_of
from openenv.core.schema.plain import plain_schema
from openenv.core.tasks.listed_tasks import LABELS

__all__ = [
    "check_reset_parameters",
    "has_labels",
    "listed_task",
    "nearest_name",
    "unknown_names_text",
    "unknown_split_text",
    "without_labels",
    "without_unknown",
]

ALWAYS_ACCEPTED = frozenset({"seed", "episode_id"})
"""What every reset may be passed; an environment that has no use for them does not get them."""

_LONGEST_NAME = 100
_MOST_NAMES = 20


def check_reset_parameters(schema: Mapping[str, Any] | None, parameters: Mapping[str, Any], where: str = "") -> None:
    """Refuse parameters that an environment's ``reset`` does not take, or not with these values.

    Args:
        schema: JSON Schema of the parameters, as ``schemas()["reset"]`` of a client gives it; ``None`` where the server
            publishes none, which accepts everything.
        parameters: What a reset is to be passed.
        where: What the message is to begin with, such as the option that they come from.

    Raises:
        ConfigurationError: A name is unknown, or a value has another type; the message has the nearest name.

    Example:
        >>> schema = {"properties": {"n": {"type": "integer"}}, "additionalProperties": False}
        >>> check_reset_parameters(schema, {"nn": 4})
        Traceback (most recent call last):
        ...
        openenv.core.exceptions.base.ConfigurationError: reset does not take 'nn' (did you mean 'n'?). It takes: n.
    """
    if schema is None:
        return
    beginning = f"{where}: " if where else ""
    known = schema.get("properties", {})
    if not _takes_any(schema):
        unknown = [name for name in parameters if name not in known and name not in ALWAYS_ACCEPTED]
        if unknown:
            raise ConfigurationError(beginning + unknown_names_text(unknown, known))
    for name, value in parameters.items():
        fault = _fault(known[name], schema, value) if name in known else None
        if fault is not None:
            raise ConfigurationError(f"{beginning}the parameter {name!r} of reset: {fault}, got {value!r:.100}.")


def without_unknown(schema: Mapping[str, Any] | None, row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the columns of a dataset's row that are no parameters of ``reset``.

    Args:
        schema: As in ``check_reset_parameters``.
        row: The columns.
    """
    if schema is None or _takes_any(schema):
        return dict(row)
    taken = ALWAYS_ACCEPTED | schema.get("properties", {}).keys()
    return {name: value for name, value in row.items() if name in taken}


def has_labels(task: Collection[str]) -> bool:
    """Return whether a task of a file has labels, which a reset may not take; a server ignores those that it lists."""
    return not listed_task(task) and any(label in task for label in LABELS)


def without_labels(schema: Mapping[str, Any] | None, task: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the labels of a task that are no parameters of ``reset``: they are for samplers and results.

    Args:
        schema: As in ``check_reset_parameters``.
        task: A task of a file.

    Example:
        >>> without_labels({"properties": {}, "additionalProperties": False}, {"seed": 1, "difficulty": 2})
        {'seed': 1}
    """
    if schema is None or _takes_any(schema):
        return dict(task)
    known = schema.get("properties", {})
    return {name: value for name, value in task.items() if name in known or name not in LABELS}


def listed_task(parameters: Collection[str]) -> bool:
    """Whether parameters name a task that the environment lists: such a row may have further fields, for people.

    Args:
        parameters: Their names.
    """
    return "split" in parameters and "index" in parameters


def unknown_names_text(unknown: Iterable[str], known: Iterable[str], what: str = "reset") -> str:
    """Say which names are unknown, which ones are near, and which are known.

    Args:
        unknown: Names that came.
        known: Names that there are.
        what: What takes them.

    Example:
        >>> unknown_names_text(["sizze"], ["seed", "size"])
        "reset does not take 'sizze' (did you mean 'size'?). It takes: seed, size."
    """
    known = list(known)
    named = ", ".join(suggestion(name, known) for name in list(unknown)[:_MOST_NAMES])
    takes = f"It takes: {', '.join(known)}." if known else "It takes no parameters."
    return f"{what} does not take {named}. {takes}"


def unknown_split_text(split: str, known: Iterable[str]) -> str:
    """Say that there is no such split, which one is near, and which ones there are.

    Args:
        split: The name that came.
        known: Names of the environment's splits.
    """
    known = list(known)
    return f"The environment has no split {suggestion(split, known)}. It has: {', '.join(known)}."


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another one; ``None`` where none is."""
    return next(iter(difflib.get_close_matches(name[:_LONGEST_NAME], list(known), n=1)), None)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a name as it came, with the known name that is most like it, if any, as a question."""
    close = nearest_name(name, known)
    shown = repr(name[:_LONGEST_NAME])
    return shown if close is None else f"{shown} (did you mean {close!r}?)"


def _takes_any(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("additionalProperties", True))


def _fault(field: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> str | None:
    """Say what is wrong with a value, in as far as its schema is simple."""
    expected = hint_of(plain_schema(field, schema))
    if expected is Any:
        return None
    try:
        TypeAdapter(expected).validate_python(value)
    except ValidationError as error:
        message = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        return message[:1].lower() + message[1:]
    return None
