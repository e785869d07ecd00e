"""Resumable session on v1: requests in order, each carried out once, even if the socket closes."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from openenv.core.env_server.execution.runner import Started
from openenv.core.env_server.history import JournalRecord
from openenv.core.env_server.history.entries import REFUSED, KeptData
from openenv.core.env_server.history.record import MemoryRecord
from openenv.core.env_server.mcp.dialect import answer_document
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import ANSWER_TYPES, Session
from openenv.core.exceptions import (
    AnswerTooLargeError,
    EnvironmentProcessEndedError,
    IllegalActionError,
    InvalidRequestError,
    RequestError,
    ResetNeededError,
    ServerFailedError,
    SessionNotFoundError,
)
from openenv.core.wire.arrays import WRITTEN, Written, byte_size, nested
from openenv.core.wire.messages import Answer, MessageType, Refusal, V1Request, quick_answer
from openenv.core.wire.v1 import encode_error_v1, encode_written

logger = logging.getLogger(__name__)

_ENDED = "This session has ended; it was idle for too long or was closed."
_FAILED = "The server failed on this request, and the session has ended; its log says why."
_FORK = MessageType.FORK.value
# Types of requests that ``Session.handle`` often answers without a wait.
_EPISODE = (MessageType.STEP.value, MessageType.RESET.value)
# Types of requests that may change the environment.
_CHANGING = (MessageType.RESET, MessageType.STEP, MessageType.MCP)
# Types of requests whose answers ignore the client's limit on their length.
_OF_ANY_LENGTH = (MessageType.CLOSE, MessageType.FORK)

Message: TypeAlias = V1Request | Refusal
ResultT = TypeVar("ResultT")


class SessionConnection(Protocol):
    """Connection of a client on v1, as far as its sessions know it.

    Attributes:
        client: Address of the client, as in ``access.peer.peer_address``; ``None`` for a client without a limit.
        takes_arrays: Whether the client reads binary frames, which have arrays beside JSON.
    """

    client: str | None
    takes_arrays: bool

    def begin(self, message: Message) -> "PendingRequest":
        """Count a message of the frame that is being processed as under way."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether the unsent answers are within the limit."""
        ...

    async def room(self) -> None:
        """Wait until the unsent answers are within the limit; may be cancelled."""

    def left(self, session: "ResumableSession") -> None:
        """Remove a session that has moved to another connection, or has ended."""

    def joined(self, session: "ResumableSession") -> None:
        """Add a session that was forked from a session of this connection."""

    def lost(self, session: "ResumableSession", unanswered: list[int]) -> None:
        """Send errors in place of all unsent answers of a session that another server has resumed.

        Args:
            session: The session.
            unanswered: Ids of its requests without an answer.
        """


class PendingRequest(NamedTuple):
    """Message whose answer comes later; its connection counts it until then.

    Attributes:
        connection: The connection that it came on.
        message: The message.
        end: Ends the count, and sends an answer; ``None`` if the answer is not for this connection.
    """

    connection: SessionConnection
    message: Message
    end: Callable[[Answer | None], None]


class _Visit:
    """Work on a session that is not a request of its client, and is done between two of these.

    Args:
        work: The work.
    """

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._work = work
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def carry_out(self) -> None:
        """Do the work. Every exception is the result's."""
        try:
            result = await self._work()
        except Exception as error:  # noqa: BLE001  # the visitor waits for it
            self.fail(error)
        except BaseException:
            self.fail(SessionNotFoundError("", _ENDED))
            raise
        else:
            if not self.result.done():
                self.result.set_result(result)

    def fail(self, error: Exception) -> None:
        """End the visit with an error, unless it has ended."""
        if not self.result.done():
            self.result.set_exception(error)


class ResumableSession:
    """Session that its client can resume: token, request ids, last answer and expiry.

    Args:
        session: The session.
        sessions: Closes the session.
        token: Secret that the client must send to resume the session on another connection.
        record: Record of the session's requests.
        longest_answer: The client's limit on an answer, in bytes; ``None`` for no limit.
        fork: Opens the given number of sessions that continue from this session's state; returns the answer's ``data``.
        on_close: Called once, when the session has released its slot.
        takes_checkpoints: Whether the record can keep snapshots of the environment.
        last_id: Id of the request that started last.
        last_answer: Answer to that request; ``None`` before there is one.

    Attributes:
        session: As above.
        token: As above.
        longest_answer: As above.
        connection: The attached connection; ``None`` while detached.
        record: As above.
        last_id: As above.
        last_answer: As above.
        takes_arrays: Whether the client reads binary frames, which have arrays beside JSON.
    """

    __slots__ = (
        "_checkpoint_wanted",
        "_ending",
        "_expiry",
        "_fork",
        "_on_close",
        "_pause",
        "_queue",
        "_sessions",
        "_takes_checkpoints",
        "_task",
        "_visits",
        "connection",
        "last_answer",
        "last_id",
        "longest_answer",
        "record",
        "session",
        "takes_arrays",
        "token",
    )

    def __init__(
        self,
        session: Session,
        sessions: SessionManager,
        token: str,
        record: MemoryRecord | JournalRecord,
        *,
        longest_answer: int | None,
        fork: Callable[["ResumableSession", int], Awaitable[str]],
        on_close: Callable[["ResumableSession"], None],
        takes_checkpoints: bool,
        last_id: int = 0,
        last_answer: Answer | None = None,
    ) -> None:
        self.session = session
        self.token = token
        self.longest_answer = longest_answer
        self.record = record
        self.connection: SessionConnection | None = None
        self.last_id = last_id
        self.last_answer = last_answer
        self.takes_arrays = False
        self._sessions = sessions
        self._fork = fork
        self._on_close = on_close
        self._takes_checkpoints = takes_checkpoints and session.can_snapshot
        self._queue: deque[PendingRequest] = deque()
        self._visits: deque[_Visit] = deque()
        self._task: asyncio.Task[None] | None = None  # carries out the requests that are not answered at once
        self._checkpoint_wanted = False  # when what is under way has ended
        self._ending: Ending | None = None  # why the session is closed after the task's end
        self._pause: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        session.record_in(record)
        session.on_end(self._session_ended)

    @property
    def queued(self) -> int:
        """Number of queued messages."""
        return len(self._queue)

    @property
    def is_ending(self) -> bool:
        """Whether the session ends as soon as the request under way has ended."""
        return self._ending is not None

    def submit(self, message: Message) -> Answer | None:
        """Answer a message of the connection, in order of arrival.

        Returns:
            The answer; ``None`` if the connection gets the answer later.
        """
        connection = self.connection
        assert connection is not None
        if self._task is None:
            answer = self._answer(message)
            if type(answer) is Answer:
                if self._takes_checkpoints and self._is_checkpoint_due(message):
                    self._run(self._keep_checkpoint())
                return answer
            self._run(self._deliver(connection.begin(message), answer))
            return None
        self._queue.append(connection.begin(message))
        if self._closes_in_turn(message):  # the request under way may hang
            self._ending = Ending.CLOSED
            self._sessions.free_slot(self.session, Ending.CLOSED)
        return None

    def _closes_in_turn(self, message: Message) -> bool:
        """Return whether a message, queued last, is a close whose id can be the next one in its turn."""
        if not isinstance(message, V1Request) or message.type != MessageType.CLOSE:
            return False
        return self.last_id < message.id <= self.last_id + len(self._queue)

    def attach(self, connection: SessionConnection, longest_answer: int | None) -> None:
        """Resume the session on another connection. Queued messages are dropped: the client sends them again.

        Args:
            connection: The connection.
            longest_answer: The client's limit on an answer, in bytes; ``None`` for no limit.
        """
        self._leave_connection(connection)
        self.longest_answer = longest_answer
        self._set_arrays(connection.takes_arrays)
        self.session.resume()

    def join(self, connection: SessionConnection) -> None:
        """Attach the session's first connection."""
        self.connection = connection
        self._set_arrays(connection.takes_arrays)

    def detach(self, expire: Callable[["ResumableSession"], None], delay_s: float) -> None:
        """Detach the session from its connection, and keep it for the client.

        Args:
            expire: Called unless the client resumes the session in time.
            delay_s: Time in seconds.
        """
        self._leave_connection(None)
        self.session.detach()
        self.expire_after(expire, delay_s)

    def expire_after(self, expire: Callable[["ResumableSession"], None], delay_s: float) -> None:
        """Start the timer that calls ``expire`` unless the client resumes the session in time; as for ``detach``."""
        self._expiry = asyncio.get_running_loop().call_later(delay_s, expire, self)

    def end(self, ending: Ending) -> None:
        """End the session. A request under way is cancelled, and keeps the slot until it has ended."""
        self._leave_connection(None)
        self._end_visits()
        self._ending = ending
        if self._task is None:
            self._close(ending)
        else:  # after the task's start, since its coroutine must be awaited
            asyncio.get_running_loop().call_soon(self._task.cancel)

    def revoke(self) -> None:
        """End the session, which another server has resumed. The client gets an error for each unanswered request."""
        self._sessions.free_slot(self.session, Ending.REPLACED)
        under_way = [self.last_id] if self._task is not None and self.last_answer is None else []
        if self.connection is not None:
            unanswered = under_way + [pending.message.id for pending in self._queue if pending.message.id is not None]
            self.connection.lost(self, unanswered)
        self.end(Ending.REPLACED)

    def mark_unrecoverable(self) -> None:
        """Record that the journal can't rebuild the session any more, and take a snapshot if possible."""
        assert isinstance(self.record, JournalRecord)
        self.record.mark_unrecoverable()
        self.keep_checkpoint_soon()

    def keep_checkpoint_soon(self) -> None:
        """Take a snapshot if one is due, now or at the end of what is under way."""
        if not self._takes_checkpoints or self.session.closed:
            return
        if self._task is None:
            self._run(self._keep_checkpoint())
        else:
            self._checkpoint_wanted = True

    async def between_requests(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Do something while the session carries out no request; further requests wait meanwhile.

        Args:
            work: What to do.

        Raises:
            SessionNotFoundError: The session ends.
        """
        if self.is_ending or self.session.closed:
            raise SessionNotFoundError(self.session.id, _ENDED)
        visit = _Visit(work)
        self._visits.append(visit)
        if self._task is None:
            self._run(self._work())
        result: ResultT = await visit.result
        return result

    def _end_visits(self) -> None:
        while self._visits:
            self._visits.popleft().fail(SessionNotFoundError(self.session.id, _ENDED))

    def _set_arrays(self, takes_arrays: bool) -> None:
        """Set whether the client reads binary frames, which may differ on another connection."""
        self.takes_arrays = takes_arrays
        if self.last_answer is not None and not takes_arrays:
            self.last_answer = self.last_answer._replace(text=nested(self.last_answer.text))

    def _leave_connection(self, new: SessionConnection | None) -> None:
        for pending in self._queue:
            pending.end(None)
        self._queue.clear()
        if self.connection is not None and self.connection is not new:
            self.connection.left(self)
        self.connection = new
        if self._pause is not None:
            self._pause.cancel()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _answer(self, message: Message) -> Started[Answer]:
        """Carry out a message. Every exception becomes an answer, and ends this session at most."""
        data_sent: KeptData = None
        try:
            if isinstance(message, Refusal):
                return self._refuse(message)
            if message.id != self.last_id + 1:
                return self._repeat(message)
            self.last_id, self.last_answer = message.id, None
            data_sent = self.record.copy_data(message)
            if message.type in _EPISODE:
                data = self.session.handle(message.type, message.data, message.action, data_sent)
            else:
                data = self._start(message)
            if isinstance(data, WRITTEN):
                return self._complete(message, data_sent, data)
        except Exception as error:  # noqa: BLE001  # the client waits for an answer
            return self._fail(message, data_sent, error)
        return self._finish(message, data_sent, data)

    async def _finish(self, request: V1Request, data_sent: KeptData, data: Coroutine[Any, Any, Written]) -> Answer:
        try:
            return self._complete(request, data_sent, await data)
        except Exception as error:  # noqa: BLE001  # the client waits for an answer
            return self._fail(request, data_sent, error)

    def _start(self, request: V1Request) -> Started[Written]:
        """Carry out a request that is neither a step nor a reset."""
        kind = request.type
        if self.session.closed:  # not checked by every mcp message
            raise SessionNotFoundError(request.session, _ENDED)
        if kind == MessageType.CLOSE:
            self._close(Ending.CLOSED)
            return "{}"
        if kind == MessageType.FORK:
            return self._forked(request.data["count"])
        if kind == MessageType.MCP:
            return answer_document(self.session, request.data)
        return self.session.handle(kind, request.data)

    async def _forked(self, count: int) -> str:
        return await self._fork(self, count)

    def _complete(self, request: V1Request, data_sent: KeptData, data: Written) -> Answer:
        kind, limit = request.type, self.longest_answer
        sent = data if isinstance(data, str) or self.takes_arrays else data.nested()
        if limit is not None and len(sent) * 4 > limit and kind not in _OF_ANY_LENGTH:
            size = byte_size(sent)
            if size > limit:
                raise AnswerTooLargeError(size, limit)
        self.last_answer = answer = quick_answer((ANSWER_TYPES[kind], sent, request.id, request.session))
        self.record.note(request, data_sent, "" if kind == _FORK else data)  # records must not contain tokens
        return answer

    def _fail(self, request: Message, data_sent: KeptData, error: Exception) -> Answer:
        if isinstance(error, RequestError) and isinstance(request, V1Request):
            try:
                return self._refuse_request(request, data_sent, error)
            except Exception as unexpected:  # noqa: BLE001  # raised by the record
                error = unexpected
        return self._fail_session(request, error)

    def _fail_session(self, request: Message, error: Exception) -> Answer:
        """Answer a request on which the server itself failed. The session ends, since its state is unknown."""
        name = self.session.name
        logger.error("session %s can't be served", name, exc_info=error, extra={"session": name})
        self.last_answer = answer = self._error(ServerFailedError(_FAILED), request.id, request.session)
        self._close(Ending.FAILED)
        return answer

    def _refuse_request(self, request: V1Request, data_sent: KeptData, error: RequestError) -> Answer:
        if self.session.closed:  # by its idle timeout
            self._close(Ending.CLOSED)
        self.last_answer = answer = self._error(error, request.id, request.session)
        if isinstance(error, InvalidRequestError) and not isinstance(error, IllegalActionError):
            self._note_refusal(request.id, answer.text)  # the environment was not called
        else:
            self.record.note(request, data_sent, answer.text, failed=True)
        return answer

    def _refuse(self, refusal: Refusal) -> Answer:
        """Answer an invalid message. If its id is the next one, the id is used up."""
        answer = self._error(refusal.error, refusal.id, refusal.session)
        if refusal.id == self.last_id + 1:
            self.last_id, self.last_answer = refusal.id, answer
            self._note_refusal(refusal.id, answer.text)
        return answer

    def _repeat(self, request: V1Request) -> Answer:
        """Answer a request whose id is not the next one: with the last answer if it is a repetition, else an error."""
        if request.id == self.last_id and self.last_answer is not None:
            return self.last_answer
        error = InvalidRequestError(
            f"Expected the id {self.last_id + 1}, since the ids of a session count up by one from 1; got {request.id}."
        )
        return self._error(error, request.id, request.session)

    def _note_refusal(self, request_id: int, answer: Written) -> None:
        self.record.note(V1Request(REFUSED, {}, request_id, self.session.id), {}, answer, failed=True)

    def _error(self, error: RequestError, request_id: int | None, session_id: str | None) -> Answer:
        self.session.count_error(error.code)
        return encode_error_v1(error, request_id, session_id)

    def _run(self, first: Coroutine[Any, Any, None]) -> None:
        """Start a task that awaits a coroutine, and then carries out the queued messages."""
        self._task = asyncio.get_running_loop().create_task(self._work(first))
        self._task.add_done_callback(self._worked)

    async def _work(self, first: Coroutine[Any, Any, None] | None = None) -> None:
        if first is not None:
            await first
        while self._queue or self._visits:
            while self._visits:
                await self._visits.popleft().carry_out()
            if self._queue:
                pending = self._queue.popleft()
                await self._deliver(pending, self._answer(pending.message))

    def _worked(self, _task: "asyncio.Task[None]") -> None:
        self._task = None
        if self._queue or self._visits:  # queued between the task's end and this callback
            self._run(self._work())
        elif self._ending is not None or self.session.closed:
            self._close(self._ending or Ending.CLOSED)
        elif self._checkpoint_wanted:
            self._checkpoint_wanted = False
            self.keep_checkpoint_soon()

    async def _deliver(self, pending: PendingRequest, answer: Started[Answer]) -> None:
        connection, message, end = pending
        try:
            done = answer if isinstance(answer, Answer) else await answer
        except asyncio.CancelledError:
            end(None)
            raise
        end(done if connection is self.connection else None)
        if self._takes_checkpoints and self._is_checkpoint_due(message):
            await self._keep_checkpoint()
        if connection is self.connection and not connection.has_room:
            await self._wait_for_room(connection)

    async def _wait_for_room(self, connection: SessionConnection) -> None:
        """Wait while the client leaves too many answers unread on the session's connection."""
        self._pause = asyncio.get_running_loop().create_task(connection.room())
        await asyncio.wait((self._pause,))
        self._pause = None

    def _is_checkpoint_due(self, message: Message) -> bool:
        """Return whether a snapshot is due after a message: one that may have changed the environment.

        A message of type ``mcp`` changes nothing before the first episode.
        """
        if not isinstance(message, V1Request) or message.type not in _CHANGING:
            return False
        if message.type == MessageType.MCP and self.session.episode.number == 0:
            return False
        return self.record.wants_checkpoint(self.last_id)

    async def _keep_checkpoint(self) -> None:
        if self.session.closed or not self.record.wants_checkpoint(self.last_id):
            return
        try:
            checkpoint = await self.session.checkpoint()
            answer = None if self.last_answer is None else encode_written(self.last_answer)
            self.record.keep_checkpoint(checkpoint, self.last_id, answer)
        except (EnvironmentProcessEndedError, ResetNeededError):  # nothing to snapshot before the next reset
            return
        except Exception as error:  # the session continues without snapshots
            self._takes_checkpoints = False
            name, is_expected = self.session.name, isinstance(error, RequestError)
            reason = error.message if isinstance(error, RequestError) else type(error).__name__
            unexpected = None if is_expected else error
            logger.warning(
                "session %s takes no more snapshots: %s", name, reason, exc_info=unexpected, extra={"session": name}
            )

    def _close(self, ending: Ending) -> None:
        if self.connection is not None:
            self.connection.left(self)
        self._sessions.close(self.session, ending)

    def _session_ended(self, ending: Ending) -> None:
        if self._task is None and self.connection is not None:  # otherwise the task still has to answer
            self.connection.left(self)
        self._end_visits()
        if ending is not Ending.SHUTDOWN:  # after a shutdown, the session can be recovered
            self.record.ended(f"{ending}")
        self._on_close(self)
