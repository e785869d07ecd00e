"""A client's session on v1, which shares its connection and outlives it.

A session has one request under way at a time, and keeps it until its answer has come: on another connection it can be
sent again under the same number, which the server carries out once.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_json

from openenv.core.client.transport.connection import Connection
from openenv.core.client.transport.outgoing import OutgoingRequest
from openenv.core.client.transport.resending import MOST_RESENDS, Resending
from openenv.core.client.transport.session import RESET, ClientSession, answer_data, fail_waiters, given_up, unsent
from openenv.core.client.transport.waiter import Waiter
from openenv.core.exceptions import MessageTooLargeError, OpenEnvError, RequestNotSentError
from openenv.core.wire.errors import error_data
from openenv.core.wire.messages import MessageType


class Terms(NamedTuple):
    """What the server says of a session that it opens.

    Attributes:
        token: What takes the session up again; ``None`` where it can't be.
        window_s: Seconds for which it is kept when its connection has gone.
        max_message_bytes: The longest message that the server takes; ``None`` where it does not say.
    """

    token: str | None = None
    window_s: float = 0.0
    max_message_bytes: int | None = None

    @classmethod
    def of(cls, data: Any, token: Any = None) -> "Terms":
        """Read them from an answer's ``data``, whatever that is, and a token that stands elsewhere."""
        if not isinstance(data, dict):
            return cls()
        token = data.get("token") if token is None else token
        window_s, limit = data.get("resume_window_s"), data.get("max_message_bytes")
        return cls(
            token if isinstance(token, str) else None,
            window_s if isinstance(window_s, int | float) and 0 < window_s < _LONGEST_WINDOW_S else 0.0,
            limit if isinstance(limit, int) else None,
        )


# A month, as good as for ever; what is no number does not pass it.
_LONGEST_WINDOW_S = 2_592_000.0


class Channel(Protocol):
    """What carries the requests of sessions that share it; see ``SharedConnection``, which is one."""

    @property
    def connection(self) -> Connection:
        """The socket; during an outage the one that has gone."""

    @property
    def resending(self) -> Resending:
        """What is sent again on it."""

    @property
    def lives(self) -> bool:
        """Whether requests will be answered, perhaps not before there is another socket."""

    def post(self, message: bytes) -> None:
        """Send a message."""

    def send(self, messages: list[bytes]) -> None:
        """Send messages in as few frames as make sense."""

    def send_requests(self, requests: list[OutgoingRequest]) -> None:
        """Send requests of different sessions in as few messages and frames as make sense."""

    def adopt(self, message: dict[str, Any], *, attached: bool) -> "list[SharedSession]":
        """Take the sessions that a fork has made."""

    def unclaimed(self, message: Any, *, attached: bool = True) -> None:
        """Take an answer whose caller was cancelled."""

    def abort_session(self, session: "SharedSession") -> None:
        """Have a session ended without waiting for it."""

    def abort_orphaned(self, session: "SharedSession") -> None:
        """End a session whose loop does not run."""

    async def close_session(self, session: "SharedSession") -> None:
        """End a session, and the connection with its last one."""

    def lost_error(self) -> OpenEnvError:
        """Make the error for a request that comes after the end."""


class SharedSession(ClientSession):
    """A session that shares its connection.

    Args:
        channel: The connection that it shares.
        session_id: The session's id.
        terms: What the server has said of it.

    Attributes:
        attached: Whether the server answers this session on the socket that the shared connection has now.
        opened_by: Number of the ``open`` that it is the answer to; 0 where it was forked.
        resends: How often the request under way was sent again, on one connection after another.
        close_id: Number of the message that ends the session, once that was sent.
        closings: How often that was sent.
    """

    def __init__(self, channel: Channel, session_id: str, terms: Terms) -> None:
        super().__init__()
        self.channel = channel
        self.id = session_id
        self.terms = terms
        self.attached = True
        self.opened_by = 0
        self.resends = 0
        self._encoded_id = to_json(session_id)
        # Numbers of the requests that were sent and answered last, and who waits for the answer that has not come.
        self._last_id = 0
        self._answered_id = 0
        self._answer: Waiter | None = None
        self._request: OutgoingRequest | None = None
        # Requests that wait for the answer to the one under way.
        self._queue: deque[tuple[bytes, bytes | None, Waiter]] = deque()
        self.close_id = 0
        self.closings = 0
        self._closed: Waiter | None = None

    @property
    def connection(self) -> Connection:
        """The shared connection's; during an outage the one that has gone."""
        return self.channel.connection

    @property
    def session_id(self) -> str | None:
        """The session's id."""
        return self.id

    @property
    def answers(self) -> bool:
        """Whether a request would be answered, perhaps not before the shared connection has connected again."""
        return self.usable and self.channel.lives

    @property
    def can_resume(self) -> bool:
        """Whether the server keeps the session when its connection goes."""
        return self.terms.window_s > 0 and self.terms.token is not None

    def send_request(self, kind: bytes, data: bytes | None, answer: Waiter) -> None:
        """Send a request; see ``ClientSession.send_request``."""
        request = self.prepare(kind, data, answer)
        if request is not None:
            self.channel.post(request.message)

    def prepare(self, kind: bytes, data: bytes | None, answer: Waiter) -> OutgoingRequest | None:
        """Number a request, to be sent now; ``None`` where it is answered here, or its turn is to come."""
        self.has_requests = True
        if not self.usable:  # since its caller looked, which may have been in another thread
            answer.set_exception(self._end_error(kind))
            return None
        limit = self.terms.max_message_bytes
        if data is not None and limit is not None and len(data) > limit:
            answer.set_result(_too_large(len(data), limit))
            return None
        if self._answer is not None or not self.attached:
            self._queue.append((kind, data, answer))
            return None
        return self._begin(kind, data, answer)

    async def fork(self, count: int, timeout_s: float | None) -> "Sequence[SharedSession]":
        """Open sessions that continue from the same state; see ``ClientSession.fork``."""
        forked: list[SharedSession] = await self.exchange(
            b"fork", b'{"count":%d}' % count, timeout_s, partial(_Forking, self)
        )
        return forked

    def closing(self, answer: Waiter, last_id: int | None = None) -> bytes:
        """Write the message that ends the session.

        Args:
            answer: Learns of the end.
            last_id: Number of the last request that the server knows of, where that is not the last that was sent.
        """
        self._closed = answer
        self.closings += 1
        self.close_id = (self._last_id if last_id is None else last_id) + 1
        return b'{"type":"close","id":%d,"session":%b}' % (self.close_id, self._encoded_id)

    def attaching(self, number: int, max_message_bytes: int) -> bytes:
        """Write the message that takes the session up on another connection."""
        data = {"token": self.terms.token, "answered": self._answered_id, "max_message_bytes": max_message_bytes}
        return b'{"type":"attach","id":%d,"session":%b,"data":%b}' % (number, self._encoded_id, to_json(data))

    @property
    def was_resent_too_often(self) -> bool:
        """Whether the request under way has ended so many connections that it is not to be sent again."""
        return self._answer is not None and self.resends >= MOST_RESENDS

    def resume(self) -> None:
        """Have sent again what was not answered, or send what has waited."""
        if self._answer is None:
            self.attached = True
            self._begin_next()
        else:
            self.channel.resending.add(self)

    def send_again(self) -> None:
        """Send the request under way on the connection that there is now."""
        self.attached = True
        self.resends += 1
        assert self._request is not None
        self.channel.post(self._request.message)

    def fail(self, loss: OpenEnvError) -> None:
        """Fail the requests under way with the reason of the loss; without any, the next request fails with it."""
        queue, self._queue = self._queue, deque()
        reported = [fail_waiters([answer], partial(_unsent, kind, loss)) for kind, _, answer in queue]
        reported.append(fail_waiters(self.unanswered(), partial(copy, loss)))
        self._record_loss(loss, reported=any(reported))
        self.usable = False

    def take(self, number: int, message: Any) -> None:
        """Pass an answer to its waiter, and send the next request."""
        answer = self._answer
        if number != self._last_id or answer is None:
            if number == self.close_id and self._closed is not None and not self._closed.done():
                self._closed.set_result(message)
            return  # else it was answered already
        self._answer, self._answered_id = None, number
        if self.resends:
            self.channel.resending.settle(self)
        if answer.done():  # its caller was cancelled
            self.channel.unclaimed(message, attached=self.resends == 0)
        else:
            answer.set_result(message)
        if self._queue and self.usable:  # else it is being closed, and its waiters are failed
            self._begin_next()

    def unanswered(self) -> list[Waiter]:
        """Forget every request that has no answer, and return who waits for them."""
        waiting = [answer for answer in (self._answer, self._closed) if answer is not None]
        waiting += [answer for _, _, answer in self._queue]
        self._answer = self._closed = None
        self._queue.clear()
        return waiting

    def abort(self) -> None:
        """Have the server end the session, whatever it is doing, and tell everybody who waits."""
        self.usable = False
        self.channel.abort_session(self)

    def _close_soon(self) -> None:
        # The server may hold the session, as where it could not make its environment.
        self.connection.loop.call_soon_threadsafe(self.channel.abort_session, self)

    def abort_orphaned(self) -> None:
        """Let go of a session whose loop does not run."""
        self.usable = False
        self.channel.abort_orphaned(self)

    async def _close(self) -> None:
        await self.channel.close_session(self)

    def _end_error(self, kind: bytes) -> OpenEnvError:
        """Make the error for a request that comes after the end."""
        if self._loss is None:
            return given_up() if self.channel.lives else self.channel.lost_error()
        self._loss_is_reported = True
        return _unsent(kind, self._loss)

    def _begin_next(self) -> None:
        while self._queue and self._answer is None and self.attached:
            kind, data, answer = self._queue.popleft()
            if not answer.done():  # else its caller was cancelled before it was sent
                self.channel.post(self._begin(kind, data, answer).message)

    def _begin(self, kind: bytes, data: bytes | None, answer: Waiter) -> OutgoingRequest:
        """Number the next request and expect its answer."""
        self._last_id = number = self._last_id + 1
        self._answer = answer
        self.resends = 0
        self._request = request = OutgoingRequest(kind, number, self._encoded_id, data)
        return request


class _Forking:
    """Takes the answer to a fork: the connection has the new sessions before anything else comes from the server.

    Args:
        session: The session that is forked.
        result: Who waits for the sessions.
    """

    def __init__(self, session: SharedSession, result: "asyncio.Future[Any]") -> None:
        self._session = session
        self._result = result

    def set_result(self, message: Any) -> None:
        """Take the sessions, or the error that says why there are none."""
        try:
            answer_data(message, MessageType.FORKED)
            self._result.set_result(self._session.channel.adopt(message, attached=self._session.resends == 0))
        except OpenEnvError as error:
            self._result.set_exception(error)

    def set_exception(self, error: BaseException) -> None:
        """Learn that there will be none."""
        self._result.set_exception(error)

    def done(self) -> bool:
        """Whether no caller waits any more."""
        return self._result.done()


def _unsent(kind: bytes, loss: OpenEnvError) -> OpenEnvError:
    """Make the error for a request that was not sent: a reset asks again, whatever its session was lost by."""
    return RequestNotSentError(*loss.args) if kind == RESET else unsent(loss)


def _too_large(size: int, limit: int) -> dict[str, Any]:
    """Make the answer that the server would give."""
    return {"type": MessageType.ERROR, "data": error_data(MessageTooLargeError(size, limit))}
