"""Who waits for the answers to a client's requests, in a coroutine or in a thread; and what is no answer."""

import json
from threading import Lock
from typing import Any, Protocol

from openenv.core.exceptions import InvalidAnswerError

_LONGEST_QUOTE = 200


class Waiter(Protocol):
    """Somebody who waits for the answer to a request; an ``asyncio.Future`` is one."""

    def set_result(self, message: Any, /) -> None:
        """Take the answer: a JSON object as a dictionary, or the bytes of what is none."""

    def set_exception(self, error: BaseException, /) -> None:
        """Learn that there will be none."""

    def done(self) -> bool:
        """Whether no caller waits any more."""


class NoWaiter:
    """Waits for an answer that is of no interest."""

    def set_result(self, message: Any, /) -> None:
        """Do nothing."""

    def set_exception(self, error: BaseException, /) -> None:
        """Do nothing."""

    def done(self) -> bool:
        """No caller waits."""
        return True


class ThreadWaiter:
    """An answer that a thread blocks for. A lock is the cheapest thing that one thread can wait on for another."""

    __slots__ = ("_error", "_lock", "_message")

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()
        self._message: Any = None
        self._error: BaseException | None = None

    def set_result(self, message: Any) -> None:
        """Take the answer and wake the thread."""
        self._message = message
        self._lock.release()

    def set_exception(self, error: BaseException) -> None:
        """Take the error and wake the thread."""
        self._error = error
        self._lock.release()

    def done(self) -> bool:
        """Whether it was answered."""
        return self._message is not None or self._error is not None

    def wait(self, timeout_s: float | None) -> Any:
        """Wait for the answer; ``None`` where it did not come in time.

        Raises:
            OpenEnvError: There will be none; the subclass says why.
        """
        if not self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return None
        if self._error is not None:
            raise self._error
        return self._message


def invalid_answer(expected: str, message: Any) -> InvalidAnswerError:
    """Make the error for what is no answer.

    Args:
        expected: The ``type`` that was expected.
        message: What came, as ``Waiter.set_result`` takes it.
    """
    shown = message.decode(errors="replace") if isinstance(message, bytes) else json.dumps(message)
    return InvalidAnswerError(
        f'Expected the server to answer {{"type": "{expected}", "data": {{...}}}} or an error, got '
        f"{shown!r:.{_LONGEST_QUOTE}}. Is it an OpenEnv server?"
    )
