"""The sessions of v1 that share a connection, and go on together on another one when it is lost.

What several of them ask at the same time leaves in one frame.
"""

import asyncio
import logging
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import to_json

from openenv.core.client.transport.connection import CLOSE_TIMEOUT_S, Connection, Endpoint
from openenv.core.client.transport.outgoing import FULL_FRAME, OutgoingRequest, entries_of, messages_of
from openenv.core.client.transport.reconnect import Reconnect, refused_error, retry_after_s
from openenv.core.client.transport.resending import MOST_RESENDS, Resending
from openenv.core.client.transport.session import answer_data, fail_waiters, given_up, parsed
from openenv.core.client.transport.shared_session import SharedSession, Terms
from openenv.core.client.transport.waiter import NoWaiter, Waiter, invalid_answer
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
    RequestGivenUpError,
)
from openenv.core.wire.arrays import Part, numpy_array, parts_of, with_arrays
from openenv.core.wire.messages import MessageType

logger = logging.getLogger(__name__)

# How much longer than the longest answer a frame may be: what the wire allows, and more for a server that counts a full
# frame in characters, of up to 4 bytes.
_FURTHER_BYTES = 5 * FULL_FRAME
_UNREADABLE = (
    "The connection was closed, since a frame on it could not be read, and the session is lost. The next call opens a "
    "new one."
)
# How long to try whether a server of a fleet can be reached again, before the fleet is requested to name another one.
_SAME_SERVER_TIMEOUT_S = 3.0
# Types of answers that name a session, and are for the shared connection all the same.
_OF_THE_CONNECTION = (MessageType.OPENED.value, MessageType.ATTACHED.value)


@dataclass(eq=False)
class _Opening:
    """A session that is being opened.

    Attributes:
        message: What asks the server for it.
        session: Who waits for it.
        channel: What it is sent over.
        resends: How often it was sent again, on one connection after another.
    """

    message: bytes
    session: "asyncio.Future[SharedSession]"
    channel: "SharedConnection"
    resends: int = 0

    def send_again(self) -> None:
        """Send the message on the connection that there is now."""
        self.resends += 1
        self.channel.post(self.message)


class _Attaching(NamedTuple):
    """A session that is being taken up.

    Attributes:
        session: The session.
        deadline_s: Until when to repeat the request to a server that can't resume it for now, by the event loop's time.
    """

    session: SharedSession
    deadline_s: float


class SharedConnection:
    """Sessions of v1 that share a connection.

    When its socket is lost, it connects again, takes the sessions up, and sends again what was not answered. Sessions
    that the server does not keep are lost with their socket.

    Args:
        connection: The first connection.
        pool: The pool that it belongs to, which lives as long as any of its connections: they refer to it, and only
            endpoints lead to it otherwise.
        endpoint: Where its client began, and how to connect to there again.

    Attributes:
        connection: The connection; during an outage the one that has gone.
        resending: What is sent again on it.
    """

    def __init__(self, connection: Connection, pool: object, endpoint: Endpoint) -> None:
        self.connection = connection
        self._pool = pool
        self._endpoint = endpoint
        self._sessions: dict[str, SharedSession] = {}
        # Sessions that were given up, until the server has said that they are closed.
        self._leaving: dict[str, SharedSession] = {}
        self._opening: dict[int, _Opening] = {}
        # Numbers of requests to open whose caller was cancelled: a session that the server opens for one is closed.
        self._unwanted: set[int] = set()
        self._attaching: dict[int, _Attaching] = {}
        self._last_id = 0
        self._messages: list[bytes] = []
        self._turn_is_noted = False
        self.resending = Resending()
        # From a loss until the sessions are taken up; and until there is a connection, the next attempt to make one or
        # the one under way. No task waits for the next one, which a loop that is closed would leave pending.
        self._reconnect: Reconnect | None = None
        self._attempt: asyncio.Task[None] | asyncio.TimerHandle | None = None
        self._last_reconnect: Reconnect | None = None
        self._failure: OpenEnvError | None = None
        self._take_over(connection)

    def __len__(self) -> int:
        """Sessions that it has or is opening."""
        return len(self._sessions) + len(self._opening)

    @property
    def lives(self) -> bool:
        """Whether requests will be answered: it is connected, connects again, or is about to notice a loss."""
        return self._failure is None and self.connection.usable

    async def open(self, timeout_s: float | None, capacity_wait_s: float = 0.0) -> SharedSession:
        """Open a session.

        Args:
            timeout_s: Seconds that the server may take, which has to make an environment; ``None`` for no limit.
            capacity_wait_s: Seconds to wait in line before that where every place is taken.

        Raises:
            ConnectionFailedError: The server did not answer.
            ConnectionLostError: The connection went.
            InvalidAnswerError: What came is no answer.
            ServerError: The server opens none; the message says why.
        """
        if self._failure is not None:  # it went before anything was sent on it, as with a server that ends
            raise self.lost_error()
        self._last_id = number = self._last_id + 1
        session: asyncio.Future[SharedSession] = self.connection.loop.create_future()
        message = self._open_message(number, capacity_wait_s)
        self._opening[number] = _Opening(message, session, self)
        if self.connection.is_open or self._reconnect is None:  # else it is sent on the next connection
            self.post(message)
        timer = asyncio.timeout(None if timeout_s is None else timeout_s + capacity_wait_s)
        try:
            async with timer:
                return await session
        except BaseException as error:
            self._give_up(number, session)
            if isinstance(error, TimeoutError) and timer.expired():  # a server's own error may be a TimeoutError, too
                raise ConnectionFailedError(
                    f"The server did not open a session within {timeout_s} s (message_timeout_s)."
                ) from error
            raise
        finally:
            self._close_if_unused()

    def post(self, message: bytes) -> None:
        """Send a message: at once where it is the first in the loop's turn, else with the turn's others."""
        if self._turn_is_noted:
            self._messages.append(message)
            return
        if len(self._sessions) > 1:  # else no other message can leave in this turn
            self._turn_is_noted = True
            self.connection.loop.call_soon(self._end_turn)
        self.send([message])

    def send(self, messages: list[bytes]) -> None:
        """Send messages now, in as few frames as make sense."""
        connection = self.connection
        try:
            for frame in _frames(messages):
                connection.send_message(frame)
        except OpenEnvError:
            connection.report_lost()

    def send_requests(self, requests: list[OutgoingRequest]) -> None:
        """Send requests of different sessions now, in as few messages and frames as make sense."""
        self.send(messages_of(requests, columns=self.connection.reads_columns))

    def _end_turn(self) -> None:
        self._turn_is_noted = False
        if self._messages:
            messages, self._messages = self._messages, []
            self.send(messages)

    def adopt(self, message: dict[str, Any], *, attached: bool) -> list[SharedSession]:
        """Take the sessions that a fork has made.

        Args:
            message: The server's answer.
            attached: Whether the server answers them on the connection that there is now.

        Raises:
            InvalidAnswerError: It is none.
        """
        data = message.get("data")
        forked = data.get("sessions") if isinstance(data, dict) else None
        if not isinstance(forked, list) or not all(self._is_new_session(one) for one in forked):
            raise invalid_answer(MessageType.FORKED, message)
        sessions = [SharedSession(self, one["session"], Terms.of(data, one["token"])) for one in forked]
        for session in sessions:
            session.attached = attached
            session.has_requests = True  # those of the session that was forked
            self._sessions[session.id] = session
        if not attached:
            self._attach(sessions, self.connection.loop.time() + sessions[0].terms.window_s)
        return sessions

    def unclaimed(self, message: Any, *, attached: bool = True) -> None:
        """Take an answer whose caller was cancelled: sessions that it opens are closed."""
        if isinstance(message, dict) and message.get("type") == MessageType.FORKED:
            with suppress(InvalidAnswerError):
                for session in self.adopt(message, attached=attached):
                    session.abort()

    def abort_session(self, session: SharedSession) -> None:
        """Have a session ended without waiting for it."""
        self._send_close(session, NoWaiter())
        self._remove(session)

    async def close_session(self, session: SharedSession) -> None:
        """End a session, and the connection with its last one."""
        attempt = self._attempt
        try:
            closed: asyncio.Future[Any] = self.connection.loop.create_future()
            if self._send_close(session, closed):
                with suppress(OpenEnvError, TimeoutError):
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await closed
                    self._leaving.pop(session.id, None)
        finally:
            self._remove(session)
        if not self and isinstance(attempt, asyncio.Task):
            await asyncio.wait([attempt])
        if not self.connection.usable:
            await self.connection.close()

    def abort_orphaned(self, session: SharedSession) -> None:
        """End a session whose loop does not run: with the last one the connection, else when the loop runs again."""
        known = self._sessions.pop(session.id, None) is not None
        if not self or not self.connection.may_go_on:
            self.connection.abort_orphaned()
        if known and self.connection.may_go_on:
            self.connection.loop.call_soon_threadsafe(self._ended, session)

    def _remove(self, session: SharedSession) -> None:
        """Forget a session, telling everybody who waits, and close the connection with the last one."""
        if self._sessions.pop(session.id, None) is None:
            return
        session.usable = False
        self.resending.settle(session)
        self._close_if_unused()
        fail_waiters(session.unanswered(), given_up)

    def received(self, message: bytes, /, *, binary: bool = False) -> None:
        """Pass the answers of a frame to their sessions."""
        if binary:
            self._received_arrays(message)
            return
        document = parsed(message)
        for answer in document if isinstance(document, list) else [document]:
            if isinstance(answer, dict) and "sessions" in answer:
                self._deliver_columns(answer)
            else:
                self._deliver(answer)

    def _received_arrays(self, frame: bytes) -> None:
        """Pass the answers of a binary frame to their sessions; an error of its lengths goes to all."""
        try:
            parts = parts_of(frame)
        except InvalidAnswerError as error:
            self._deliver(error)
            return
        for part in parts:
            self._deliver(_answer_of(part))

    def lost(self) -> None:
        """Learn that the connection has gone: connect again for the sessions that the server keeps."""
        if self._attempt is not None:
            return
        self.connection.detach()
        self._messages.clear()
        self.resending.clear()
        self._attaching.clear()
        self._unwanted.clear()
        if not self.connection.may_be_replaced:
            self._fail(self.connection.lost_error())
            return
        for session in list(self._sessions.values()):
            if not (session.can_resume and session.usable):  # it ends with its connection, or is being ended
                self._fail_session(session, self.connection.lost_error())
                if session.can_resume:
                    self._leaving[session.id] = session
        if not self._sessions:
            self._fail(self.connection.lost_error())
            return
        for session in [*self._sessions.values(), *self._leaving.values()]:
            session.attached = False
        self._begin_reconnect()

    def lost_error(self) -> OpenEnvError:
        """Make the error for a request that comes after the end."""
        return self.connection.lost_error() if self._failure is None else copy(self._failure)

    def _take_over(self, connection: Connection) -> None:
        self.connection = connection
        connection.protocol.max_message_size = self._endpoint.max_message_bytes + _FURTHER_BYTES
        connection.hand_over(self)

    def _open_message(self, number: int, capacity_wait_s: float) -> bytes:
        wait = b',"wait_s":%b' % to_json(capacity_wait_s) if capacity_wait_s > 0 else b""
        limit = self._endpoint.max_message_bytes
        return b'{"type":"open","id":%d,"data":{"max_message_bytes":%d%b}}' % (number, limit, wait)

    def _begin_reconnect(self) -> None:
        now, reason = self.connection.loop.time(), self.connection.end_text()
        if self._reconnect is not None:
            self._reconnect.begin_again(reason, now)
        else:
            window_s = max(session.terms.window_s for session in self._sessions.values())
            self._reconnect = Reconnect(reason, window_s, now, self._last_reconnect, self._end_with_loop)
            logger.info("%s. Connecting again for %d sessions, for %g s", reason, len(self._sessions), window_s)
        self._attempt_later(self._reconnect)

    def _attempt_later(self, reconnect: Reconnect) -> None:
        loop = self.connection.loop
        pause_s = reconnect.pause_s(loop.time())
        if pause_s is None:
            self._fail(reconnect.error())
        else:
            self._attempt = loop.call_later(pause_s, self._begin_attempt, reconnect)

    def _begin_attempt(self, reconnect: Reconnect) -> None:
        if self.connection.orphaned:  # the process was forked with its loop: the sessions are the parent's
            self._fail(reconnect.error())
        else:
            self._attempt = self.connection.loop.create_task(self._attempt_now(reconnect))

    async def _attempt_now(self, reconnect: Reconnect) -> None:
        try:
            if self._endpoint.check_server is not None:
                self._endpoint.check_server()
            connection = await reconnect.connect(self._ways(), next(iter(self._sessions), ""), len(self._sessions))
        except OpenEnvError as error:
            self._fail(error)
        except BaseException:  # the loop ends, or no session needs the connection any more
            self._fail(reconnect.error())
            raise
        else:
            if connection is None:
                self._attempt_later(reconnect)
            else:
                self._resume_on(connection, reconnect)

    async def _end_with_loop(self) -> None:
        """End the attempt that is under way, or due; called when the event loop ends."""
        attempt, reconnect = self._attempt, self._reconnect
        if attempt is None or reconnect is None:
            return
        attempt.cancel()
        if isinstance(attempt, asyncio.Task):
            await asyncio.wait([attempt])
        else:
            self._fail(reconnect.error())

    def _ways(self) -> list[Endpoint]:
        """Say where to connect to again: to the same server and, in a fleet, to where the client began."""
        same = self.connection.endpoint
        if same.url == self._endpoint.url:
            return [same]
        return [replace(same, connect_timeout_s=min(same.connect_timeout_s, _SAME_SERVER_TIMEOUT_S)), self._endpoint]

    def _resume_on(self, connection: Connection, reconnect: Reconnect) -> None:
        """Take the sessions up on a new connection, and open those that were being opened."""
        self._attempt = None
        self._attaching.clear()
        self._take_over(connection)
        if not connection.is_open:  # it has gone already
            return
        self._attach([*self._sessions.values(), *self._leaving.values()], reconnect.deadline_s)
        for number, opening in list(self._opening.items()):
            self._open_again(number, opening, reconnect.reason)
        self._end_reconnect_when_attached()

    def _open_again(self, number: int, opening: _Opening, reason: str) -> None:
        if opening.resends >= MOST_RESENDS:
            del self._opening[number]
            fail_waiters([opening.session], partial(_not_opened, opening.resends + 1, reason))
        else:
            self.resending.add(opening)

    def _attach(self, sessions: list[SharedSession], deadline_s: float) -> None:
        messages = []
        for session in sessions:
            self._last_id += 1
            self._attaching[self._last_id] = _Attaching(session, deadline_s)
            messages.append(session.attaching(self._last_id, self._endpoint.max_message_bytes))
        self.send(messages)

    def _attach_later(self, attaching: _Attaching, delay_s: float) -> None:
        """Ask again for a session that the server could not take up for now."""
        self._last_id += 1
        self._attaching[self._last_id] = attaching
        self.connection.loop.call_later(delay_s, self._attach_now, self.connection, self._last_id)

    def _attach_now(self, connection: Connection, number: int) -> None:
        attaching = self._attaching.get(number)
        if attaching is not None and connection is self.connection and connection.is_open:
            self.post(attaching.session.attaching(number, self._endpoint.max_message_bytes))

    def _end_reconnect_when_attached(self) -> None:
        reconnect = self._reconnect
        if self._attaching or self._attempt is not None:
            return
        self.resending.proceed()
        if reconnect is None:
            return
        self._reconnect, self._last_reconnect = None, reconnect
        reconnect.end()
        logger.info("Connected again: %d sessions go on, %d were lost", len(self._sessions), reconnect.sessions_lost)

    def _deliver_columns(self, message: dict[str, Any]) -> None:
        """Pass the answers of a message with columns to their sessions."""
        entries = entries_of(message)
        if entries is None:
            self._deliver_to_all(message)
            return
        for entry in entries:
            self._deliver(entry)

    def _deliver(self, message: Any) -> None:
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(number, int):
            self._deliver_to_all(message)
            return
        session_id = message.get("session")
        if (session_id is None or message.get("type") in _OF_THE_CONNECTION) and self._deliver_here(number, message):
            return
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is not None:
            self._last_reconnect = None  # with which the next one has nothing to do, now that answers come
            session.take(number, message)
        else:
            self._deliver_to_nobody(number, message)

    def _deliver_to_nobody(self, number: int, message: dict[str, Any]) -> None:
        """Take an answer of a session that was given up."""
        for session in list(self._leaving.values()):
            if session.id == message.get("session") and session.close_id == number:
                del self._leaving[session.id]
        self.unclaimed(message)

    def _deliver_here(self, number: int, message: dict[str, Any]) -> bool:
        """Pass an answer to the request with its number, if that opens or resumes a session."""
        opening = self._opening.pop(number, None)
        if opening is not None:
            self.resending.settle(opening)
            self._settle(opening.session, message)
        elif number in self._unwanted:
            self._unwanted.remove(number)
            with suppress(OpenEnvError):
                self.abort_session(self._opened(message))
        elif number in self._attaching:
            self._attached(self._attaching.pop(number), message)
        else:
            return message.get("type") == MessageType.ATTACHED or self._was_opened_by(number, message)
        return True

    def _was_opened_by(self, number: int, message: dict[str, Any]) -> bool:
        """Whether an answer only repeats that a session was opened."""
        session_id = message.get("session")
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        return session is not None and session.opened_by == number

    def _attached(self, attaching: _Attaching, message: dict[str, Any]) -> None:
        """Go on with a session that the server has taken up, or learn why it has not."""
        delay_s = retry_after_s(message)
        remaining_s = attaching.deadline_s - self.connection.loop.time()
        if delay_s is not None and remaining_s > 0:
            self._attach_later(attaching, min(delay_s, remaining_s))
        elif message.get("type") == MessageType.ATTACHED:
            self._go_on(attaching.session, message)
        else:
            self._leaving.pop(attaching.session.id, None)
            self._fail_session(attaching.session, refused_error(self._reason, message))
        self._end_reconnect_when_attached()
        self._close_if_unused()

    def _go_on(self, session: SharedSession, message: dict[str, Any]) -> None:
        """Have sent again what was not answered, or end a session that was given up meanwhile, or is now."""
        if session.was_resent_too_often:
            self._fail_session(session, RequestGivenUpError(MOST_RESENDS + 1, self._reason))
        if session.id in self._sessions:
            session.resume()
        elif session.closings > MOST_RESENDS:
            self._leaving.pop(session.id, None)
        else:
            session.attached, self._leaving[session.id] = True, session
            data = message.get("data")
            last_id = data.get("last_id") if isinstance(data, dict) else None
            self.post(session.closing(NoWaiter(), last_id if isinstance(last_id, int) else None))

    @property
    def _reason(self) -> str:
        """Why the last connection went, as the beginning of a sentence."""
        return "The connection was lost" if self._reconnect is None else self._reconnect.reason

    def _fail_session(self, session: SharedSession, error: OpenEnvError) -> None:
        """Let go of a session, where it is still there, and tell why."""
        if self._sessions.pop(session.id, None) is not None:
            session.fail(error)
            if self._reconnect is not None:
                self._reconnect.sessions_lost += 1

    def _settle(self, opening: "asyncio.Future[SharedSession]", message: Any) -> None:
        try:
            session = self._opened(message)
        except OpenEnvError as error:
            if not opening.done():
                opening.set_exception(error)
            return
        if opening.done():  # cancelled just now, before the caller's task has run
            self.abort_session(session)
        else:
            opening.set_result(session)

    def _opened(self, message: Any) -> SharedSession:
        """Make the session that the server has opened.

        Raises:
            InvalidAnswerError: The message is no answer.
            ServerError: The server has opened none.
        """
        if isinstance(message, dict) and message.get("type") == MessageType.OPENED:
            number, session_id = message.get("id"), message.get("session")
            if isinstance(number, int) and isinstance(session_id, str) and session_id not in self._sessions:
                session = self._sessions[session_id] = SharedSession(self, session_id, Terms.of(message.get("data")))
                session.opened_by = number
                return session
            raise invalid_answer(MessageType.OPENED, message)
        answer_data(message, MessageType.OPENED)  # raises the error that it carries, or that it is no answer
        raise invalid_answer(MessageType.OPENED, message)

    def _is_new_session(self, forked: Any) -> bool:
        """Whether an entry of a fork's answer names a session that there is not yet."""
        session_id = forked.get("session") if isinstance(forked, dict) else None
        return isinstance(session_id, str) and session_id not in self._sessions and isinstance(forked.get("token"), str)

    def _give_up(self, number: int, opening: "asyncio.Future[SharedSession]") -> None:
        """Close a session whose caller was cancelled, now or when the server has opened it."""
        unanswered = self._opening.pop(number, None)
        if unanswered is not None:
            self.resending.settle(unanswered)
            self._unwanted.add(number)
        elif not opening.cancelled() and opening.exception() is None:
            self.abort_session(opening.result())

    def _send_close(self, session: SharedSession, closed: Waiter) -> bool:
        """Request the session's end, now or when it is resumed; return whether the request was sent now."""
        if session.id not in self._sessions:
            return False
        self._leaving[session.id] = session
        is_sent = session.attached and self.connection.is_open
        if is_sent:
            self.post(session.closing(closed))
        elif self.resending.settle(session):  # what the server knows of it is seen when it is taken up
            self._attach([session], self.connection.loop.time() + session.terms.window_s)
        return is_sent

    def _ended(self, session: SharedSession) -> None:
        """Learn, as the loop runs again, that a session was ended meanwhile."""
        self._leaving[session.id] = session
        if session.attached and self.connection.is_open:
            self.post(session.closing(NoWaiter()))
        self._close_if_unused()

    def _fail(self, error: OpenEnvError) -> None:
        """Tell everybody who waits that no answer will come."""
        if self._reconnect is not None:
            self._reconnect.end()
        self._failure, self._reconnect, self._attempt = error, None, None
        openings, sessions = list(self._opening.values()), list(self._sessions.values())
        self._opening.clear()
        self._sessions.clear()
        self._leaving.clear()
        fail_waiters([opening.session for opening in openings], partial(copy, error))
        for session in sessions:
            session.fail(error)

    def _deliver_to_all(self, message: Any) -> None:
        """Handle a frame that either side could not read: which session's answer is missing is not known."""
        openings = list(self._opening.values())
        self._opening.clear()
        for opening in openings:
            self._settle(opening.session, message)
        for session in list(self._sessions.values()):
            for answer in session.unanswered():
                if not answer.done():
                    answer.set_result(message)
                    session.usable = False  # no other session is concerned
        self._fail(ConnectionLostError(_UNREADABLE))
        self.connection.close_soon()

    def _close_if_unused(self) -> None:
        if self:
            return
        if self._attempt is not None:
            self._attempt.cancel()
            self._fail(given_up())
        elif self.connection.usable:
            self.connection.close_soon()


def _not_opened(sent: int, reason: str) -> ConnectionFailedError:
    return ConnectionFailedError(
        f"The server did not open a session: the request was sent on {sent} connections, each of which was lost "
        f"before the answer came. The last time: {reason}."
    )


def _answer_of(part: Part) -> Any:
    """Return the answer in a part of a binary frame, with its arrays, or with an error in place of its data."""
    answer = parsed(bytes(part.json))
    try:
        return with_arrays(answer, part.buffers, numpy_array)
    except InvalidAnswerError as error:
        return {**answer, "data": error} if isinstance(answer, dict) else error


def _frames(messages: list[bytes]) -> list[bytes]:
    """Put messages into frames, of several an array."""
    if len(messages) == 1:
        return messages
    frames, start, size = [], 0, 0
    for end, message in enumerate(messages, 1):
        size += len(message)
        if size >= FULL_FRAME or end == len(messages):
            frames.append(b"[" + b",".join(messages[start:end]) + b"]")
            start, size = end, 0
    return frames
