"""Checks of the arguments of resets and steps against the parameters that an environment accepts."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from openenv.core.env_server.execution.reset_parameters import unknown_names, unknown_names_error
from openenv.core.env_server.execution.runner import Runner
from openenv.core.env_server.execution.task_questions import TaskQuestion
from openenv.core.exceptions import RequestError, TaskNotFoundError
from openenv.core.reset_check import listed_task, unknown_names_text, unknown_split_text

logger = logging.getLogger(__name__)


class ArgumentChecks:
    """Checks of the arguments of one session's requests.

    Args:
        runner: Runner of the session's environment.
        session_name: Public name of the session, for the log.
        timeout_s: Timeout in seconds for listing the environment's splits.
        is_lenient: Whether unknown parameters of a reset are ignored instead of refused.
    """

    def __init__(self, runner: Runner, session_name: str, timeout_s: float | None, *, is_lenient: bool) -> None:
        self._runner = runner
        self._session_name = session_name
        self._timeout_s = timeout_s
        self._is_lenient = is_lenient
        self._is_logged = False
        self._splits: list[str] | None = None  # None before list_splits was called

    def relax(self) -> None:
        """Ignore unknown parameters of a reset from now on."""
        self._is_lenient = True

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """Ignore unknown parameters of a reset, in a block that replays resets."""
        before, self._is_lenient = self._is_lenient, True
        try:
            yield
        finally:
            self._is_lenient = before

    def unknown_parameters(self, arguments: Mapping[str, Any]) -> str | None:
        """Return a message that names the unknown arguments of a reset; ``None`` if the environment accepts all.

        Args:
            arguments: As for ``Session.reset``.
        """
        names = self._runner.reset_names
        unknown = unknown_names(names, arguments)
        return unknown_names_text(unknown, names or ()) if unknown and not listed_task(arguments) else None

    def unknown_options(self, options: Mapping[str, Any]) -> str | None:
        """Return a message that names the unknown options of a step; ``None`` if the environment accepts all.

        Args:
            options: As for ``Session.step``.
        """
        names = self._runner.step_names
        unknown = [] if names is None else [name for name in options if name not in names]
        return unknown_names_text(unknown, names or (), "step") if unknown else None

    def check_parameters(self, arguments: Mapping[str, Any]) -> None:
        """Refuse unknown parameters of a reset, or log once that they are ignored.

        Raises:
            InvalidRequestError: A parameter is unknown.
        """
        names = self._runner.reset_names
        unknown = unknown_names(names, arguments)
        if not unknown or listed_task(arguments):
            return
        error = unknown_names_error(unknown, names or ())
        if not self._is_lenient:
            raise error
        if not self._is_logged:
            self._is_logged = True
            name = self._runner.environment_name
            log_fields = {"session": self._session_name}
            logger.warning("%s: %s It was left out.", name, error.message, extra=log_fields)

    async def check_split(self, split: Any) -> None:
        """Refuse a split that the environment does not list, if it lists any.

        Raises:
            TaskNotFoundError: The environment does not list the split.
        """
        if self._splits is None:
            self._splits = await self._listed_splits()
        if self._splits and isinstance(split, str) and split not in self._splits:
            raise TaskNotFoundError(unknown_split_text(split, self._splits))

    async def _listed_splits(self) -> list[str]:
        """Return the names of the environment's splits; invalid entries are skipped."""
        try:
            listed = from_json((await self._runner.tasks(TaskQuestion("list_splits"), self._timeout_s)).text)
        except RequestError:  # the environment lists no splits, or failed, which is in the log
            return []
        splits = listed if isinstance(listed, list) else []
        named = [split.get("name") if isinstance(split, dict) else split for split in splits]
        return [name for name in named if isinstance(name, str)]
