"""A session that a client holds on v1: its requests in turn, each carried out once, whatever becomes of its socket."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from openenv.core.env_server.dispatch import answer, answer_now
from openenv.core.env_server.journal import JournalRecord
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.protocol import Refusal, V1Request, encode_v1
from openenv.core.env_server.records import REFUSED, MemoryRecord, Taken
from openenv.core.env_server.session import Session
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

if TYPE_CHECKING:
    from openenv.core.env_server.seats import Seats

logger = logging.getLogger(__name__)

_ENDED = "This session has ended; it was idle for too long or was closed."
_FAILED = "The server failed on this request, and the session has ended; its log says why."
# Answers of which no client can say that they are too long.
_ALWAYS_TAKEN = ("closed", "forked")

Message: TypeAlias = V1Request | Refusal


class Outlet(Protocol):
    """The socket that a seat answers to.

    Attributes:
        client: Who is at its other end, as in ``clients.client_of``; ``None`` for nobody.
    """

    client: str | None

    def began(self) -> None:
        """Learn that a request of this socket is under way."""

    def ended(self, message: str | None) -> None:
        """Learn that a request of this socket is not under way any more; take its answer."""

    @property
    def has_room(self) -> bool:
        """Whether no more is unsent than may be."""

    async def room(self) -> None:
        """Wait until there is room again; may be cancelled."""

    def left(self, seat: "Seat") -> None:
        """Learn that the seat answers to this socket no more."""

    def joined(self, seat: "Seat") -> None:
        """Learn that a seat answers to this socket which was forked from one that does."""

    def lost(self, seat: "Seat", unanswered: list[int]) -> None:
        """Learn that another server has the session, so that no answer of this one may leave any more.

        Args:
            seat: The session's.
            unanswered: Numbers of its requests that are not answered yet.
        """


class Seat:
    """A session that a client holds.

    Attributes:
        session: The session.
        token: What the client must show to take it up on another socket.
        longest_answer: The most bytes that its client takes in an answer; ``None`` for any.
        outlet: The socket that it answers to; ``None`` while there is none.
        last_id: Number of the request that began last.
        last_answer: The answer to it; ``None`` until there is one.
        record: Where what it is asked is taken down.
    """

    __slots__ = (
        "_expiry",
        "_over",
        "_pause",
        "_queue",
        "_seats",
        "_takes_snapshots",
        "_work_task",
        "last_answer",
        "last_id",
        "longest_answer",
        "outlet",
        "record",
        "session",
        "token",
    )

    def __init__(
        self,
        seats: "Seats",
        session: Session,
        longest_answer: int | None,
        record: MemoryRecord | JournalRecord,
        token: str,
    ) -> None:
        self.session = session
        self.token = token
        self.longest_answer = longest_answer
        self.record = record
        self.outlet: Outlet | None = None
        self.last_id = 0
        self.last_answer: str | None = None
        self._seats = seats
        self._takes_snapshots = seats.keeps_journal and session.can_snapshot
        self._queue: deque[tuple[Outlet, Message]] = deque()
        self._work_task: asyncio.Task[None] | None = None
        self._over = False
        self._pause: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def queued(self) -> int:
        """Messages that wait for their turn."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Whether nothing waits for its turn."""
        return self._work_task is None

    @property
    def at_once(self) -> bool:
        """Whether ``answer_now`` may be called for a reset or a step."""
        return self._work_task is None and self.session.at_once

    def terms(self, max_message_bytes: int) -> str:
        """Write what its client is told with it, as JSON.

        Args:
            max_message_bytes: Longest message that the server takes.
        """
        window_s = self._seats.window_s
        return (
            f'{{"max_message_bytes":{max_message_bytes},"token":"{self.token}",'
            f'"resume_window_s":{window_s:g},"last_id":{self.last_id}}}'
        )

    def answer_now(self, request: V1Request) -> str | None:
        """Answer a reset or a step without a task; ``None`` where that turns out to need one."""
        if request.id != self.last_id + 1:
            return self._repeated(request)
        self.last_id = request.id
        try:
            return self._carry_out_now(request)
        except Exception:  # noqa: BLE001  # the socket's other sessions are to go on
            return self._failed(request)

    def refuse(self, refusal: Refusal) -> str:
        """Answer what makes no request. Where it is the next one in turn, its number is used up."""
        message = self._seats.error(refusal.error, refusal.id, refusal.session)
        if refusal.id == self.last_id + 1:
            self.last_id, self.last_answer = refusal.id, message
            self._note_refusal(refusal.id, message)
        return message

    def queue(self, message: Message) -> None:
        """Have a message answered after those before it."""
        assert self.outlet is not None
        self.outlet.began()
        self._queue.append((self.outlet, message))
        if self._work_task is None:
            self._run(self._work())
        elif isinstance(message, V1Request) and message.type == "close":  # what it works at may hang
            self._over = True
            self._seats.release(self)

    def move(self, outlet: Outlet | None) -> None:
        """Answer to another socket, or to none. What has not begun is forgotten: its client sends it again."""
        for waiting_outlet, _ in self._queue:
            waiting_outlet.ended(None)
        self._queue.clear()
        if self.outlet is not None and self.outlet is not outlet:
            self.outlet.left(self)
        self.outlet = outlet
        if self._pause is not None:
            self._pause.cancel()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def expire_after(self, delay_s: float) -> None:
        """Have the session end unless a socket takes it up in time."""
        self._expiry = asyncio.get_running_loop().call_later(delay_s, self._seats.expire, self)

    def end(self) -> None:
        """End the session. What it works at is cancelled, and its place is kept until that has ended."""
        self.move(None)
        self._over = True
        if self._work_task is None:
            self._seats.close(self)
        else:  # not before the task has begun, which may hold something that has to be awaited
            asyncio.get_running_loop().call_soon(self._work_task.cancel)

    def lose(self) -> None:
        """End the session, which another server has taken up. Whoever waits here for an answer is told so."""
        under_way = [self.last_id] if self._work_task is not None and self.last_answer is None else []
        if self.outlet is not None:
            self.outlet.lost(self, under_way + [message.id for _, message in self._queue if message.id is not None])
        self.end()

    def lose_beginning(self) -> None:
        """Learn that the journal can't rebuild the session any more; where it can take a snapshot, it does."""
        assert isinstance(self.record, JournalRecord)
        self.record.lose_beginning()
        self.keep_snapshot_soon()

    def keep_snapshot_soon(self) -> None:
        """Take a snapshot if one is wanted; where a request is under way, that one's end is time enough."""
        if self._takes_snapshots and self._work_task is None and not self.session.closed:
            self._run(self._take_snapshot())

    def _carry_out_now(self, request: V1Request) -> str | None:
        taken = self.record.takes(request)
        try:
            data = answer_now(self.session, request.type, request.data)
            if not isinstance(data, str):
                self.last_answer = None
                self._work_on(request, taken, data)
                return None
            self.last_answer = message = self._encoded(request, "observation", data)
            self.record.note(request, taken, data)
        except RequestError as error:
            message = self._refused(request, taken, error)
        if self._takes_snapshots and self.record.wants_snapshot(self.last_id):
            self._run(self._take_snapshot())
        return message

    def _work_on(self, request: V1Request, taken: Taken, data: Awaitable[str]) -> None:
        """Have what has begun already finished."""
        assert self.outlet is not None
        self.outlet.began()
        self._run(self._finish(self.outlet, request, taken, data))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._work_task = asyncio.get_running_loop().create_task(work)
        self._work_task.add_done_callback(self._worked)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._work_task = None
        if not task.cancelled() and task.exception() is not None:
            name = self.session.name
            logger.error("session %s can't be served", name, exc_info=task.exception(), extra={"session": name})
            self.session.ending = Ending.FAILED
            self._over = True
        if self._queue:  # it came between the task's end and this
            self._run(self._work())
        elif self._over or self.session.closed:
            self._seats.close(self)

    async def _finish(self, outlet: Outlet, request: V1Request, taken: Taken, data: Awaitable[str]) -> None:
        try:
            message = await self._finished(request, taken, data)
        except asyncio.CancelledError:
            outlet.ended(None)
            raise
        except Exception:  # noqa: BLE001  # its client waits for an answer
            message = self._failed(request)
        self._deliver(outlet, message)
        await self._take_snapshot()

    async def _finished(self, request: V1Request, taken: Taken, data: Awaitable[str]) -> str:
        try:
            answered = await data
            self.last_answer = message = self._encoded(request, "observation", answered)
            self.record.note(request, taken, answered)
        except RequestError as error:
            message = self._refused(request, taken, error)
        return message

    async def _work(self) -> None:
        """Work through the messages that wait, in their order."""
        while self._queue:
            outlet, message = self._queue.popleft()
            try:
                answered = await self._answered(message)
            except asyncio.CancelledError:
                outlet.ended(None)
                raise
            self._deliver(outlet, answered)
            if self._takes_snapshots and self._played(message):
                await self._keep_snapshot()
            if outlet is self.outlet and not outlet.has_room:
                await self._wait_for_room(outlet)

    async def _wait_for_room(self, outlet: Outlet) -> None:
        """Wait while the client leaves too much unread on a socket that the seat answers to."""
        self._pause = asyncio.get_running_loop().create_task(outlet.room())
        await asyncio.wait((self._pause,))
        self._pause = None

    async def _take_snapshot(self) -> None:
        """Take a snapshot where it is time for one, before anything else; then go on working."""
        if self._takes_snapshots:
            await self._keep_snapshot()
        await self._work()

    async def _keep_snapshot(self) -> None:
        if self.session.closed or not self.record.wants_snapshot(self.last_id):
            return
        try:
            snapshot, position = await self.session.snapshot()
        except (EnvironmentProcessEndedError, ResetNeededError):  # nothing is left to take one of, until the next reset
            return
        except RequestError as error:
            name = self.session.name
            logger.warning("session %s takes no more snapshots: %s", name, error.message, extra={"session": name})
            self._takes_snapshots = False
            return
        self.record.keep_snapshot(snapshot, position, self.last_id, self.last_answer)

    def _played(self, message: Message) -> bool:
        """Whether it may have changed the environment; an agent's message can do so once an episode was begun."""
        if not isinstance(message, V1Request):
            return False
        return message.type in ("reset", "step") or (message.type == "mcp" and self.session.episodes > 0)

    def _deliver(self, outlet: Outlet, message: str) -> None:
        outlet.ended(message if outlet is self.outlet else None)

    async def _answered(self, message: Message) -> str:
        if isinstance(message, Refusal):
            return self.refuse(message)
        if message.id != self.last_id + 1:
            return self._repeated(message)
        self.last_id, self.last_answer = message.id, None
        try:
            return await self._carry_out(message)
        except Exception:  # noqa: BLE001  # its client waits for an answer
            return self._failed(message)

    async def _carry_out(self, request: V1Request) -> str:
        taken = self.record.takes(request)
        try:
            kind, data = await self._answer(request)
            self.last_answer = message = self._encoded(request, kind, data)
            self.record.note(request, taken, "" if _forks(request) else data)  # no record is to hold tokens
        except RequestError as error:
            message = self._refused(request, taken, error)
        return message

    def _failed(self, request: V1Request) -> str:
        """Answer a request on which the server itself has failed. The session ends: nobody knows where it stands."""
        name = self.session.name
        logger.exception("session %s can't be served", name, extra={"session": name})
        self.session.ending = Ending.FAILED
        self.last_answer = message = self._seats.error(ServerFailedError(_FAILED), request.id, request.session)
        self._seats.close(self)
        return message

    async def _answer(self, request: V1Request) -> tuple[str, str]:
        if request.type == "close":
            return self._closed(request)
        if self.session.closed:  # which not every mcp message would ask
            raise SessionNotFoundError(request.session, _ENDED)
        if _forks(request):
            children = await self._seats.fork(self, request.data["count"])
            return "forked", self._seats.fork_terms(children)
        return await answer(self.session, request.type, request.data)

    def _closed(self, request: V1Request) -> tuple[str, str]:
        if self.session.closed:
            raise SessionNotFoundError(request.session, _ENDED)
        self._seats.close(self)
        return "closed", "{}"

    def _repeated(self, request: V1Request) -> str:
        """Answer a request that is not the next one."""
        if request.id == self.last_id and self.last_answer is not None:
            return self.last_answer
        error = InvalidRequestError(
            f"Expected the id {self.last_id + 1}, since the ids of a session count up by one from 1; got {request.id}."
        )
        return self._seats.error(error, request.id, request.session)

    def _refused(self, request: V1Request, taken: Taken, error: RequestError) -> str:
        if self.session.closed:  # by its idle timeout
            self._seats.close(self)
        self.last_answer = message = self._seats.error(error, request.id, request.session)
        if isinstance(error, InvalidRequestError) and not isinstance(error, IllegalActionError):
            self._note_refusal(request.id, message)  # the environment was not asked
        else:
            self.record.note_error(request, taken, message)
        return message

    def _note_refusal(self, request_id: int, message: str) -> None:
        self.record.note_error(V1Request(REFUSED, {}, request_id, self.session.id), {}, message)

    def _encoded(self, request: V1Request, kind: str, data: str) -> str:
        limit = self.longest_answer if kind not in _ALWAYS_TAKEN else None
        if limit is not None and len(data) * 4 > limit:  # only then can it be longer than its client takes
            size = len(data.encode())
            if size > limit:
                raise AnswerTooLargeError(size, limit)
        return encode_v1(kind, data, request.id, request.session)


def _forks(message: Message) -> bool:
    return isinstance(message, V1Request) and message.type == "fork"
