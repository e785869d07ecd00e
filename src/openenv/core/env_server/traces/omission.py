"""Fields that traces leave out: they are removed from each entry before it is stored, and the entry lists their paths.

A path such as ``observation.screenshot`` begins with a part of an entry. It goes through lists, so that
``observation.messages.image`` means the image of every message.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

MESSAGES, TOKENS = "messages", "tokens"
"""Parts of a conversation, which is no part of an entry."""

ACTION = "action"
"""Part of an entry: the request of a step."""

_ERROR = "error"
_REQUEST = {"reset": "reset", "step": ACTION}
# Columns of an episode with arguments of its reset.
_COLUMNS = {"episode_id": "episode_id", "seed": "seed", "split": "split", "index": "task_index"}


def without_fields(document: dict[str, Any], paths: Iterable[str]) -> list[str]:
    """Remove fields from a JSON document.

    Args:
        document: The document, which is changed.
        paths: Paths of the fields.

    Returns:
        The paths that the document had.

    Example:
        >>> document = {"action": {"name": "ada", "password": "x"}}
        >>> without_fields(document, ["action.password", "observation"]), document
        (['action.password'], {'action': {'name': 'ada'}})
    """
    return [path for path in paths if _remove(document, path.split("."))]


def without_fields_of_entry(
    kind: str, request: Any, answer: Mapping[str, Any], paths: Iterable[str], *, failed: bool
) -> tuple[Any, Mapping[str, Any], list[str]]:
    """Remove fields from the request and the answer of an entry, which are changed.

    Args:
        kind: ``reset`` or ``step``.
        request: Arguments of the reset, or the action.
        answer: Data of the answer, or of the error.
        paths: Paths of the fields.
        failed: Whether the answer is an error.

    Returns:
        The request, the answer, and the paths that they had.
    """
    name = _REQUEST.get(kind, kind)
    parts = {**({_ERROR: answer} if failed else answer), name: request}
    found = without_fields(parts, paths)
    request = parts.pop(name, None)
    return request, parts.get(_ERROR, {}) if failed else parts, found


def names_request(path: str) -> bool:
    """Return whether a path is that of a field of a request, without which a replay does something else."""
    return path.partition(".")[0] in _REQUEST.values()


def holds_field(content: bytes, paths: Iterable[str]) -> bool:
    """Return whether lines of JSON may have one of the fields; quick, and never wrong where it says no."""
    return any(_may_hold(content, *path.rpartition(".")[::2]) for path in paths)


def columns_of(paths: Iterable[str]) -> list[str]:
    """Return the columns of an episode that stay empty."""
    chosen = set(paths)
    return [column for name, column in _COLUMNS.items() if chosen & {"reset", f"reset.{name}"}]


def _may_hold(content: bytes, parents: str, name: str) -> bool:
    if not parents and name in (*_REQUEST.values(), _ERROR):  # a part that a line has without its name
        return True
    return not name.isascii() or to_json(name) in content


def _remove(document: Any, names: Sequence[str]) -> bool:
    if isinstance(document, list):
        return sum(_remove(inner, names) for inner in document) > 0  # each of them loses the field
    if not isinstance(document, dict) or names[0] not in document:
        return False
    if len(names) > 1:
        return _remove(document[names[0]], names[1:])
    del document[names[0]]
    return True
