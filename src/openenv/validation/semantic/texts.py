"""Texts of findings, and comparison of answers."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

WRONG = "zzqx"
"""Word that is the answer to no question."""


def task_name(task: Mapping[str, Any]) -> str:
    """Return a task's name for people.

    Example:
        >>> task_name({"split": "train", "index": 3, "seed": 1}), task_name({"seed": 7})
        ('task train[3]', 'seed 7')
    """
    return f"task {task['split']}[{task['index']}]" if "split" in task else f"seed {task.get('seed')}"


def normalised(value: Any) -> str:
    """Return the letters and digits of a value in lower case, or its number.

    Example:
        >>> normalised(" The  Answer. "), normalised("1.0") == normalised(1)
        ('theanswer', True)
    """
    number = number_of(value)
    if number is not None:
        return repr(number)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    text = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in text if character.isalnum())


def number_of(value: Any) -> float | None:
    """Return the number that a value is or writes; ``None`` for no number."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    text = value.strip().replace(",", "") if isinstance(value, str) else ""
    return float(text) if re.fullmatch(r"[-+]?\d+(\.\d+)?", text) and len(text) < 300 else None


def strings_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the plain values in nested JSON, each with its path."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from strings_in(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from strings_in(each, f"{path}[{number}]")
    else:
        yield path, value
