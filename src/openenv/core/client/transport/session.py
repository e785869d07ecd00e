"""A client's session with its server: requests out, each answer to its waiter.

On the legacy wire a session has a connection of its own and answers come in the order of the requests; on v1 it shares
one and outlives it, see ``shared_session.py`` and ``pool.py``.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, NoReturn, TypeVar

from pydantic_core import ValidationError, from_json

from openenv.core.client.blocking import background_loop
from openenv.core.client.transport.connection import Connection
from openenv.core.client.transport.waiter import Waiter, invalid_answer
from openenv.core.exceptions import (
    ClientModeError,
    ConfigurationError,
    ConnectionLostError,
    EpisodeOrderError,
    InvalidAnswerError,
    OpenEnvError,
    RequestNotSentError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerError,
    ServerFactoryError,
    ServerProductionModeError,
    ServerSessionError,
    ServerSessionLostError,
)
from openenv.core.wire.messages import MessageType

ResultT = TypeVar("ResultT")
# With these the server says that there is no session (any more), and closes the connection.
_LAST_WORDS = (ServerCapacityError, ServerFactoryError, ServerSessionError, ServerSessionLostError)
RESET = b"reset"
"""The request that starts an episode, and so minds no lost session."""


class ClientSession(ABC):
    """One session with a server. Everything but ``close_soon`` is for the connection's own loop.

    Attributes:
        usable: Cleared, by any thread, once the session is over or given up.
        has_requests: Whether it was sent a request, or the session that it was forked from was.
    """

    def __init__(self) -> None:
        self.usable = True
        self.has_requests = False
        # Why the session was lost, and whether anybody knows.
        self._loss: OpenEnvError | None = None
        self._loss_is_reported = False

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """What it goes over."""

    @property
    def session_id(self) -> str | None:
        """The session's id; ``None`` where the wire tells none."""
        return None

    @property
    @abstractmethod
    def answers(self) -> bool:
        """Whether a request would be answered, if only with what the server has said before."""

    @abstractmethod
    def send_request(self, kind: bytes, data: bytes | None, answer: Waiter) -> None:
        """Send a request.

        Args:
            kind: Its ``type``.
            data: Its ``data`` as JSON; ``None`` for a type that has none.
            answer: Learns of the answer, or of the loss of the connection.
        """

    @abstractmethod
    async def fork(self, count: int, timeout_s: float | None) -> "Sequence[ClientSession]":
        """Open sessions that continue from the same state.

        Args:
            count: How many.
            timeout_s: Seconds that the server may take; ``None`` for no limit.

        Returns:
            The sessions.

        Raises:
            ConfigurationError: The server does not speak v1.
            ServerError: The server has made none; the message says why. This session goes on.
            OpenEnvError: As ``exchange`` raises.
        """

    async def exchange(
        self,
        kind: bytes,
        data: bytes | None,
        timeout_s: float | None,
        taker: "Callable[[asyncio.Future[Any]], Waiter] | None" = None,
    ) -> Any:
        """Send a request and await its answer. Cancelling is safe: a late answer is not taken for another one.

        Args:
            kind: Its ``type``.
            data: Its ``data`` as JSON; ``None`` for a type that has none.
            timeout_s: Seconds that the answer may take; ``None`` for no limit.
            taker: Makes what takes the answer in place of the future that is awaited, and settles that.

        Raises:
            ConnectionLostError: The connection went.
            InvalidAnswerError: The answer was too long to be taken.
            ResponseTimeoutError: No answer came in time. The session is given up.
        """
        connection = self.connection
        answer: asyncio.Future[Any] = connection.loop.create_future()
        self.send_request(kind, data, answer if taker is None else taker(answer))
        if timeout_s is None or answer.done():
            return await answer
        deadlines = connection.deadlines
        deadlines.add(answer, timeout_s, self._time_out)
        try:
            return await answer
        finally:
            deadlines.remove(answer)

    def unreported_loss(self) -> OpenEnvError | None:
        """Return the error of a loss that no call has reported, and count it as reported; ``None`` otherwise.

        A session without requests had no episode to lose.
        """
        if self._loss is None or self._loss_is_reported or not self.has_requests:
            return None
        self._loss_is_reported = True
        return unsent(self._loss)

    @abstractmethod
    def abort(self) -> None:
        """Give the session up at once."""

    def close_soon(self) -> None:
        """Accept no further request, and close soon: the server has ended the session. Any thread may call this.

        A call has reported the end by then, also where the connection was lost before it read the server's answer.
        """
        self.usable = False
        self._loss_is_reported = True
        self._close_soon()

    @abstractmethod
    def _close_soon(self) -> None:
        """Close soon, from whichever thread this is called in."""

    async def close(self) -> None:
        """End the session, from whichever loop this is called in."""
        self.usable = False
        loop = self.connection.loop
        if loop is asyncio.get_running_loop():
            await self._close()
        elif self.connection.orphaned:
            self.abort_orphaned()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._close(), loop))

    def abort_orphaned(self) -> None:
        """Let go of a session whose loop does not run."""
        self.usable = False
        self.connection.abort_orphaned()

    @abstractmethod
    async def _close(self) -> None:
        """End the session, in its own loop."""

    def _record_loss(self, loss: OpenEnvError, *, reported: bool) -> None:
        """Remember why the session was lost, and whether a call has reported it or the client had given it up."""
        self._loss = loss
        if reported or not self.usable:  # never cleared, as ``close_soon`` may set it in another thread meanwhile
            self._loss_is_reported = True

    def _time_out(self, answer: "asyncio.Future[Any]", timeout_s: float) -> None:
        """Give the session up for want of an answer."""
        if not answer.done():
            answer.set_exception(timed_out(timeout_s))
            self.abort()


class LegacySession(ClientSession):
    """A session with a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._waiting: deque[Waiter] = deque()
        # An answer without a request: the reason for which the server is about to close.
        self._unasked: deque[Any] = deque()
        connection.hand_over(self)

    @property
    def connection(self) -> Connection:
        """The session's own."""
        return self._connection

    @property
    def answers(self) -> bool:
        """Whether a request would be answered."""
        return self.usable and (self.connection.is_open or bool(self._unasked))

    def send_request(self, kind: bytes, data: bytes | None, answer: Waiter) -> None:
        """Send a request; see ``ClientSession.send_request``."""
        self.has_requests = True
        if self._unasked:
            answer.set_result(self._unasked.popleft())
            return
        try:
            self.connection.send_message(legacy_message(kind, data))
        except OpenEnvError as error:
            answer.set_exception(error)
        else:
            self._waiting.append(answer)

    async def fork(self, count: int, timeout_s: float | None) -> NoReturn:
        """Refuse: the legacy wire has no message for it. Nothing is sent."""
        raise no_fork()

    def abort(self) -> None:
        """Drop the connection."""
        self.usable = False
        self.connection.abort()

    def _close_soon(self) -> None:
        self.connection.close_soon()

    async def _close(self) -> None:
        self.connection.usable = False
        await self.connection.close()

    def received(self, message: bytes, /, *, binary: bool = False) -> None:
        """Pass an answer to the waiter that has waited longest."""
        document = parsed(message)
        if not self._waiting:
            self._unasked.append(document)
            return
        answer = self._waiting.popleft()
        if not answer.done():  # else its caller was cancelled
            answer.set_result(document)

    def lost(self) -> None:
        """Tell everybody who waits that no answer will come."""
        if self._loss is None:
            reported = fail_waiters(self._waiting, self.connection.lost_error)
            self._record_loss(self.connection.lost_error(), reported=reported or bool(self._unasked))
            self._waiting.clear()


def legacy_message(kind: bytes, data: bytes | None) -> bytes:
    """Write a request of the legacy wire.

    Args:
        kind: Its ``type``.
        data: Its ``data`` as JSON; ``None`` for a type that has none.
    """
    return b'{"type":"%b"}' % kind if data is None else b'{"type":"%b","data":%b}' % (kind, data)


def no_fork() -> ConfigurationError:
    """Make the error for a fork on the legacy wire, which has no message for it."""
    return ConfigurationError(
        "fork() needs a server that speaks v1 of the wire; this one speaks the legacy wire only, as the public "
        "OpenEnv does. Serve the environment with this package, or open sessions with new_session() and reset each "
        "with the same seed."
    )


def session_here(session: ClientSession | None, user: str) -> ClientSession | None:
    """Return a session if it answers in this loop, and let go of one whose loop has ended.

    Args:
        session: The session.
        user: What uses it.

    Raises:
        ClientModeError: It is another loop's.
    """
    if session is None or not session.answers:
        return None
    if session.connection.loop is asyncio.get_running_loop():
        return session
    if session.connection.orphaned:
        session.abort_orphaned()
        return None
    way = "sync" if session.connection.loop is background_loop().loop else "async"
    raise ClientModeError(
        f"{user} is already being used in {way} mode. "
        "Create a separate client instance when mixing sync and async code. Calls outside an event loop block, as "
        "those of client.sync() do; for asyncio.run(), await all calls of a client in one async function."
    )


def read_answer(
    session: ClientSession | None, message: Any, expected: str, parse: Callable[[dict[str, Any]], ResultT]
) -> ResultT:
    """Parse an answer, or raise the error that it carries; a session that the server has ended is closed."""
    try:
        return parse(answer_data(message, expected))
    except ValidationError as error:
        raise InvalidAnswerError(
            f"The server's answer does not fit the client's {error.title}; are both of one environment and version? "
            f"{error}"
        ) from error
    except _LAST_WORDS as error:
        if session is not None and not isinstance(error, EpisodeOrderError | ServerProductionModeError):
            session.close_soon()
        raise


def answer_data(message: Any, expected: str) -> dict[str, Any]:
    """Return an answer's ``data``, or raise the error that it carries."""
    if isinstance(message, InvalidAnswerError):  # of a frame that can't be read
        raise copy(message)
    if isinstance(message, dict):
        kind, data = message.get("type"), message.get("data")
        if isinstance(data, dict):
            if kind == expected:
                return data
            if kind == MessageType.ERROR:
                raise ServerError.from_frame(data)
        if isinstance(data, InvalidAnswerError):  # of arrays that can't be read
            raise copy(data)
    raise invalid_answer(expected, message)


def timed_out(timeout_s: float | None) -> ResponseTimeoutError:
    """Make the error for an answer that did not come."""
    return ResponseTimeoutError(
        f"The server did not answer within {timeout_s} s (message_timeout_s), which --step-timeout-s sets for a "
        "command. The session was given up, since a late answer could be taken for another one; the next call opens a "
        "new session."
    )


def parsed(message: bytes) -> Any:
    """Return the object or array that a frame holds, or the frame itself where it holds none."""
    try:
        document = from_json(message)
    except ValueError:
        return message
    return document if isinstance(document, dict | list) else message


def fail_waiters(waiting: Iterable[Waiter], make_error: Callable[[], OpenEnvError]) -> bool:
    """Tell everybody who waits, each with an error of its own: it takes the traceback of where it is raised.

    Returns:
        Whether there was anybody.
    """
    pending = [answer for answer in waiting if not answer.done()]
    for answer in pending:
        answer.set_exception(make_error())
    return bool(pending)


def unsent(loss: OpenEnvError) -> OpenEnvError:
    """Make the error for a request that was not sent, since its session was lost before."""
    return RequestNotSentError(*loss.args) if isinstance(loss, ConnectionLostError) else copy(loss)


def given_up() -> OpenEnvError:
    """Make the error for an answer that is not waited for any more."""
    return ConnectionLostError(
        "The client closed the session, by close() or since another call got no answer in time, before the answer "
        "came. The next call opens a new session."
    )
