"""One WebSocket of v1: many sessions, whose requests are answered as they are ready and not in turn.

What can be answered at once is answered while the frame is read, without a task; anything else gets a task for each
session, which works through the session's requests in their order. Answers that are ready together leave in one frame.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field

from starlette.types import Receive, Send

from openenv.core.env_server.dispatch import answer, answer_now
from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import (
    Refusal,
    V1Request,
    decode_v1,
    encode_error_v1,
    encode_v1,
    frames_v1,
    outcome_json,
)
from openenv.core.env_server.sessions import Session, Sessions
from openenv.core.exceptions import AnswerTooLargeError, RequestError, SessionNotFoundError

logger = logging.getLogger(__name__)

# Requests of one frame that are answered before what is ready is sent and others get their turn.
_REQUESTS_IN_A_ROW = 128
# Requests of one socket that may be under way; as long as there are more, nothing further is read.
_MOST_UNDER_WAY = 16_384


@dataclass(eq=False, slots=True)
class _Seat:
    """A session on this socket.

    Attributes:
        session: The session.
        longest_answer: The most bytes that its client takes in an answer; ``None`` for any.
        queue: Requests that wait for those before them; with what to await where one has begun already.
        working: Whether a task works through the queue.
    """

    session: Session
    longest_answer: int | None
    queue: deque[tuple[V1Request, Awaitable[Outcome] | None]] = field(default_factory=deque)
    working: bool = False


class V1Socket:
    """Serves one socket.

    Args:
        sessions: Where sessions are opened; those opened here are closed when the socket ends.
        send: The socket's own.
        max_message_bytes: Longest message that is read, in bytes of UTF-8.
    """

    def __init__(self, sessions: Sessions, send: Send, max_message_bytes: int) -> None:
        self._sessions = sessions
        self._send = send
        self._max_message_bytes = max_message_bytes
        self._opened_data = f'{{"max_message_bytes":{max_message_bytes}}}'
        self._seats: dict[str, _Seat] = {}
        self._ready: list[str] = []
        self._sending = False
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: asyncio.TaskGroup

    async def serve(self, receive: Receive) -> None:
        """Answer requests until the client goes.

        Args:
            receive: The socket's own.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while (event := await receive())["type"] != "websocket.disconnect":
                    await self._take(event.get("text"))
                    await self._room.wait()
                raise _ClientGoneError  # ends the tasks
        except* (_ClientGoneError, OSError) as gone:  # the latter is what ASGI servers raise on sending too late
            logger.debug("a client disconnected: %s", gone.exceptions)
        finally:
            for seat in self._seats.values():
                self._sessions.close(seat.session)

    async def _take(self, frame: str | None) -> None:
        """Answer one frame's requests, or start on them."""
        try:
            requests = decode_v1(frame, self._max_message_bytes)
        except RequestError as error:
            self._ready.append(encode_error_v1(error, None, None))
            requests = []
        for count, request in enumerate(requests, 1):
            self._begin(request)
            if count % _REQUESTS_IN_A_ROW == 0:
                await self._flush()
                await asyncio.sleep(0)
        await self._flush()

    def _begin(self, request: V1Request | Refusal) -> None:
        if isinstance(request, Refusal):
            self._ready.append(encode_error_v1(request.error, request.id, request.session))
            return
        seat = self._seats.get(request.session)
        if seat is None:
            self._begin_without_seat(request)
        elif not seat.working and seat.session.at_once and request.type in ("step", "reset"):
            self._answer_now(seat, request)
        else:
            self._queue(seat, request)

    def _begin_without_seat(self, request: V1Request) -> None:
        if request.type == "open":
            self._started()
            self._tasks.create_task(self._open(request))
            return
        error = SessionNotFoundError(request.session, "This socket holds no such session (any more); open one.")
        self._ready.append(encode_error_v1(error, request.id, request.session))

    def _answer_now(self, seat: _Seat, request: V1Request) -> None:
        try:
            data = answer_now(seat.session, request.type, request.data)
            if not isinstance(data, str):
                self._queue(seat, request, data)
                return
            message = self._encoded(seat, request, "observation", data)
        except RequestError as error:
            message = self._refused(seat, request, error)
        self._ready.append(message)

    def _queue(self, seat: _Seat, request: V1Request, outcome: Awaitable[Outcome] | None = None) -> None:
        self._started()
        seat.queue.append((request, outcome))
        if not seat.working:
            seat.working = True
            self._tasks.create_task(self._work(seat))

    async def _work(self, seat: _Seat) -> None:
        """Work through a session's requests, in their order."""
        while seat.queue:
            request, outcome = seat.queue.popleft()
            try:
                message = await self._answered(seat, request, outcome)
            except RequestError as error:
                message = self._refused(seat, request, error)
            self._ended(message)
        seat.working = False

    async def _answered(self, seat: _Seat, request: V1Request, outcome: Awaitable[Outcome] | None) -> str:
        if outcome is not None:
            return self._encoded(seat, request, "observation", outcome_json(await outcome))
        if request.type == "close":
            del self._seats[request.session]
            self._sessions.close(seat.session)
            return encode_v1("closed", "{}", request.id, request.session)
        kind, data = await answer(seat.session, request.type, request.data)
        return self._encoded(seat, request, kind, data)

    def _refused(self, seat: _Seat, request: V1Request, error: RequestError) -> str:
        if seat.session.closed:  # by its idle timeout
            self._seats.pop(request.session, None)
        return encode_error_v1(error, request.id, request.session)

    async def _open(self, request: V1Request) -> None:
        try:
            session = await self._sessions.open()
        except RequestError as error:
            self._ended(encode_error_v1(error, request.id, None))
            return
        self._seats[session.id] = _Seat(session, request.data["max_message_bytes"])
        self._ended(encode_v1("opened", self._opened_data, request.id, session.id))

    def _encoded(self, seat: _Seat, request: V1Request, kind: str, data: str) -> str:
        limit = seat.longest_answer
        if limit is not None and len(data) * 4 > limit:  # only then can it be longer than its client takes
            size = len(data.encode())
            if size > limit:
                raise AnswerTooLargeError(size, limit)
        return encode_v1(kind, data, request.id, request.session)

    def _started(self) -> None:
        self._under_way += 1
        if self._under_way >= _MOST_UNDER_WAY:
            self._room.clear()

    def _ended(self, message: str) -> None:
        """Have an answer sent soon, with others that are ready by then."""
        self._under_way -= 1
        self._room.set()
        self._ready.append(message)
        if len(self._ready) == 1 and not self._sending:
            self._tasks.create_task(self._flush())

    async def _flush(self) -> None:
        """Send what is ready, and what becomes ready meanwhile; one at a time does this."""
        if self._sending:
            return
        self._sending = True
        try:
            while self._ready:
                ready, self._ready = self._ready, []
                for frame in frames_v1(ready):
                    await self._send({"type": "websocket.send", "text": frame})
        finally:
            self._sending = False


class _ClientGoneError(Exception):
    """Ends the tasks of a socket whose client has gone."""
