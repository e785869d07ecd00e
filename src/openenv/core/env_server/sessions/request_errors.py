"""Errors of requests: what an environment's models raise becomes a ``RequestError``."""

from collections.abc import Callable
from types import TracebackType

from openenv.core.exceptions import RequestError


class RequestErrors:
    """Context manager of ``Session.request_errors``; a generator would cost a step that waits a microsecond more.

    Args:
        convert: Returns the ``RequestError`` of an exception, given the operation's name, too.
        operation: Name of the operation, for the log.
    """

    __slots__ = ("_convert", "_operation")

    def __init__(self, convert: Callable[[Exception, str], RequestError], operation: str) -> None:
        self._convert = convert
        self._operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            failure = self._convert(error, self._operation)
            if failure is not error:
                raise failure from error
