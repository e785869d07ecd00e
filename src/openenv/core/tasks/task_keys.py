"""Keys of tasks that have none of their own: a digest of what a task holds."""

import hashlib
import json
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from pydantic_core import PydanticSerializationError

from openenv.core.plain_values import plain_value

__all__ = ["content_key"]


def content_key(task: Mapping[str, Any]) -> str:
    """Return a short digest of a task: tasks that are equal in Python have the same one, in whatever order.

    Raises:
        ValueError: The task has a value that JSON has no form for.

    Example:
        >>> content_key({"level": 1, "word": "a"}) == content_key({"word": "a", "level": 1.0})
        True
    """
    try:
        text = json.dumps(_with_one_form(task), sort_keys=True, default=_plain)
    except (TypeError, PydanticSerializationError) as error:
        raise ValueError(f"its content makes no key: {error}") from error
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _with_one_form(value: Any) -> Any:
    """Return a value in which equal numbers have one form: other programs send 1.0 back as 1."""
    if isinstance(value, Mapping):
        return {key: _with_one_form(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_one_form(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, date | time | timedelta | Decimal) else plain_value(value)
