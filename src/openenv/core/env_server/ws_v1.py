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
from openenv.core.env_server.protocol import (
    Refusal,
    V1Request,
    decode_v1,
    encode_error_v1,
    encode_v1,
    frames_v1,
)
from openenv.core.env_server.sessions import Session, Sessions
from openenv.core.exceptions import AnswerTooLargeError, RequestError, SessionNotFoundError

logger = logging.getLogger(__name__)

# Requests of one frame that are answered before what is ready is sent and others get their turn: the client reads those
# answers while the next ones are made.
_REQUESTS_IN_A_ROW = 32
# Requests of one socket that may be under way; as long as there are more, no further frame is taken.
_MOST_UNDER_WAY = 16_384
# Characters of answers that may wait for a client to read them; as long as there are more, its sessions wait.
_MOST_UNSENT = 1024 * 1024

_ENDED = "This session has ended; it was idle for too long or was closed."


@dataclass(eq=False, slots=True)
class _Seat:
    """A session on this socket.

    Attributes:
        session: The session.
        longest_answer: The most bytes that its client takes in an answer; ``None`` for any.
        queue: Messages that wait for those before them; with what to await where one has begun already.
        working: Whether a task works through the queue.
    """

    session: Session
    longest_answer: int | None
    queue: deque[tuple[V1Request | Refusal, Awaitable[str] | None]] = field(default_factory=deque)
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
        self._unsent = 0
        self._sender = asyncio.Lock()
        self._client_gone = False
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
                try:
                    while (event := await receive())["type"] != "websocket.disconnect":
                        await self._room.wait()  # not before receive(), which tells whether the client has gone
                        await self._take(event.get("text"))
                    await asyncio.sleep(0)  # lets tasks begin that hold something to await, which may not be dropped
                finally:
                    self._leave()
                raise _ClientGoneError  # ends the tasks
        except* _ClientGoneError as gone:
            logger.debug("a client disconnected: %s", gone.exceptions)
        finally:
            for seat in self._seats.values():
                self._sessions.close(seat.session)

    def _leave(self) -> None:
        """Let nothing begin any more. A session that works is closed when its call ends, which may resist for long."""
        self._client_gone = True
        for seat in self._seats.values():
            seat.queue.clear()
            if not seat.working:
                self._sessions.close(seat.session)

    async def _take(self, frame: str | None) -> None:
        """Answer one frame's requests, or start on them."""
        try:
            messages = decode_v1(frame, self._max_message_bytes)
        except RequestError as error:
            self._ready.append(encode_error_v1(error, None, None))
            messages = iter(())
        for count, message in enumerate(messages, 1):
            self._begin(message)
            if count % _REQUESTS_IN_A_ROW == 0:
                await self._flush()
                await asyncio.sleep(0)
        await self._flush()

    def _begin(self, message: V1Request | Refusal) -> None:
        seat = self._seats.get(message.session or "")
        if seat is not None and seat.working:
            if isinstance(message, V1Request) and message.type == "close":  # what it works at may hang
                self._sessions.release(seat.session)
            self._queue(seat, message)
        elif isinstance(message, Refusal):
            self._ready.append(encode_error_v1(message.error, message.id, message.session))
        elif seat is None:
            self._begin_without_seat(message)
        elif message.type in ("step", "reset") and seat.session.at_once:
            self._answer_now(seat, message)
        else:
            self._queue(seat, message)

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

    def _queue(self, seat: _Seat, message: V1Request | Refusal, data: Awaitable[str] | None = None) -> None:
        self._started()
        seat.queue.append((message, data))
        if not seat.working:
            seat.working = True
            self._tasks.create_task(self._work(seat))

    async def _work(self, seat: _Seat) -> None:
        """Work through a session's messages, in their order."""
        try:
            while seat.queue and not self._client_gone:
                message, data = seat.queue.popleft()
                try:
                    answered = await self._answered(seat, message, data)
                except RequestError as error:
                    answered = self._refused(seat, message, error)
                self._ended(answered)
                if self._unsent > _MOST_UNSENT:
                    await self._flush()
        finally:
            seat.working = False
            if self._client_gone:
                self._sessions.close(seat.session)

    async def _answered(self, seat: _Seat, message: V1Request | Refusal, data: Awaitable[str] | None) -> str:
        if isinstance(message, Refusal):
            raise message.error
        if data is not None:
            return self._encoded(seat, message, "observation", await data)
        if message.type == "close":
            return self._closed(seat, message)
        if seat.session.closed:  # an mcp message would not ask it
            raise SessionNotFoundError(message.session, _ENDED)
        kind, answered = await answer(seat.session, message.type, message.data)
        return self._encoded(seat, message, kind, answered)

    def _closed(self, seat: _Seat, request: V1Request) -> str:
        if self._seats.pop(request.session, None) is None:
            raise SessionNotFoundError(request.session, _ENDED)
        self._sessions.close(seat.session)
        return encode_v1("closed", "{}", request.id, request.session)

    def _refused(self, seat: _Seat, message: V1Request | Refusal, error: RequestError) -> str:
        if seat.session.closed:  # by its idle timeout
            self._seats.pop(seat.session.id, None)
        return encode_error_v1(error, message.id, message.session)

    async def _open(self, request: V1Request) -> None:
        try:
            session = await self._sessions.open()
        except RequestError as error:
            self._ended(encode_error_v1(error, request.id, None))
            return
        self._seats[session.id] = _Seat(session, request.data["max_message_bytes"])
        if len(self._seats) > len(self._sessions):  # some have ended by their idle timeout, and nobody asked for them
            self._seats = {name: seat for name, seat in self._seats.items() if not seat.session.closed}
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
        self._unsent += len(message)
        if len(self._ready) == 1 and not self._sender.locked() and not self._client_gone:
            self._tasks.create_task(self._flush())

    async def _flush(self) -> None:
        """Send what is ready, and what becomes ready meanwhile, after what is being sent already.

        A client that does not read holds this up, and with it the reading of further requests.
        """
        async with self._sender:
            while self._ready and not self._client_gone:
                ready, self._ready, self._unsent = self._ready, [], 0
                for frame in frames_v1(ready):
                    await self._send_frame(frame)

    async def _send_frame(self, frame: str) -> None:
        try:
            await self._send({"type": "websocket.send", "text": frame})
        except (OSError, RuntimeError) as error:  # the latter is uvicorn's, once it has closed the socket itself
            self._client_gone = True
            raise _ClientGoneError from error


class _ClientGoneError(Exception):
    """Ends the tasks of a socket whose client has gone."""
