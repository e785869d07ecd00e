"""Tasks that a session's environment lists, validated."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import EnvironmentFailedError
from openenv.core.wire.types import TaskSplit

_KNOWN_SPLITS = ("train", "validation", "test")


class SessionTasks:
    """Tasks of a session's environment.

    Each method raises ``TasksUnsupportedError`` if the environment does not implement the question,
    ``TaskNotFoundError`` if the split or index does not exist, and otherwise ``RequestError``.

    Args:
        session: The session; a reset is not required.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def splits(self) -> list[TaskSplit]:
        """Return the splits."""
        listed = await self._session.tasks("list_splits")
        if not isinstance(listed, list):
            raise EnvironmentFailedError(f"list_splits returned {type(listed).__name__}; expected a list.")
        return [_split_of(split) for split in listed]

    async def all(self, split: str) -> list[Any]:
        """Return all tasks of a split."""
        return _list_of(await self._session.tasks("list_tasks", split))

    async def count(self, split: str) -> int:
        """Return the number of tasks of a split."""
        count = await self._session.tasks("num_tasks", split)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
        raise EnvironmentFailedError(f"num_tasks returned {count!r:.100}; expected a number from 0.")

    async def get(self, split: str, index: int) -> Any:
        """Return a task."""
        return await self._session.tasks("get_task", split, index)

    async def range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        """Return the tasks from index ``start`` up to ``stop``."""
        return _list_of(await self._session.tasks("get_task_range", split, start, stop))


def _list_of(tasks: Any) -> list[Any]:
    if isinstance(tasks, list):
        return tasks
    raise EnvironmentFailedError(f"The environment's tasks are {type(tasks).__name__}; expected a list.")


def _split_of(split: Any) -> TaskSplit:
    """Parse a split: a name, or an object with a name and a type."""
    fields: Mapping[str, Any] = split if isinstance(split, dict) else {"name": split}
    name = fields.get("name")
    kind = fields.get("type", name)
    try:
        return TaskSplit.model_validate({"name": name, "type": kind if kind in _KNOWN_SPLITS else "validation"})
    except ValidationError as error:
        raise EnvironmentFailedError(
            f"list_splits returned {split!r:.100} for a split; expected its name, or an object with name and type."
        ) from error
