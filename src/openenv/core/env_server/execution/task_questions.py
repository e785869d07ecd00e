"""Questions about an environment's tasks, for the methods of ``TaskProvider``, all of which are optional."""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from openenv.core.exceptions import EnvironmentFailedError, TaskNotFoundError, TasksUnsupportedError
from openenv.core.plain_values import plain_value
from openenv.core.tasks.listed_tasks import TaskListing

TaskMethod = Literal["list_splits", "list_tasks", "num_tasks", "get_task", "get_task_range"]


class TaskQuestion(NamedTuple):
    """Question about tasks.

    Attributes:
        method: The method of ``TaskProvider`` that answers the question.
        arguments: Arguments of the method.
    """

    method: TaskMethod
    arguments: tuple[Any, ...] = ()


def ask(environment: Any, question: TaskQuestion) -> str | Awaitable[str]:
    """Answer a question, in the environment's executor: by a method of the environment, or of its ``tasks``.

    Args:
        environment: The instance.
        question: The question.

    Returns:
        The answer as JSON, or an awaitable of the answer where the environment's method is ``async``.

    Raises:
        TasksUnsupportedError: The method is missing, or raised ``NotImplementedError``.
        TaskNotFoundError: There is no such task: the method raised ``IndexError``.
        EnvironmentFailedError: The answer can't be sent as JSON.
    """
    method = getattr(environment, question.method, None)
    if method is None and isinstance(tasks := getattr(environment, "tasks", None), TaskListing):
        method = getattr(tasks, question.method)
    if not callable(method):
        raise TasksUnsupportedError(question.method)
    try:
        answer = method(*question.arguments)
    except (NotImplementedError, IndexError) as error:
        raise _meaning(error, question) from error
    return _awaited(answer, question) if isawaitable(answer) else _written(answer)


async def _awaited(answer: Awaitable[Any], question: TaskQuestion) -> str:
    try:
        return _written(await answer)
    except (NotImplementedError, IndexError) as error:
        raise _meaning(error, question) from error


def _meaning(error: NotImplementedError | IndexError, question: TaskQuestion) -> Exception:
    if isinstance(error, NotImplementedError):
        return TasksUnsupportedError(question.method)
    return error if isinstance(error, TaskNotFoundError) else TaskNotFoundError()


def _written(answer: Any) -> str:
    try:
        return to_json(answer, inf_nan_mode="null", fallback=plain_value).decode()
    except (ValueError, TypeError) as error:
        raise EnvironmentFailedError(f"The tasks cannot be sent as JSON: {error}") from error
