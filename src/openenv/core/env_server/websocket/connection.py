"""Connection: one socket, whose frames are read in order and whose answers are sent by one task at a time.

How frames are read and written is the matter of a ``Wire``: the legacy wire (``legacy.py``), v1 (``v1.py``), or MCP
(``mcp.py``). Requests that need no wait are answered while their frame is read, without a task. Sessions of v1 have
tasks of their own. The one session of another wire is waited for by the task that reads, since a second task would cost
as much again as a short step; after a second another task takes over the reading, so that it is noticed when the client
leaves. Frames that are read ahead are bounded in bytes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any, Generic, Protocol, TypeVar

from starlette.types import Receive, Send

from openenv.core.env_server.execution.runner import Started
from openenv.core.env_server.metrics import Metrics
from openenv.core.wire.bounded_json import LONG_MESSAGE

logger = logging.getLogger(__name__)

MessageT = TypeVar("MessageT")
AnswerT = TypeVar("AnswerT")

GOODBYES = (1000, 1001, 1009)
"""Close codes of a client that closes the socket on purpose, leaves the page, or got an answer above its limit.

Any other close may be unintended.
"""

NORMAL_CLOSURE = 1000
"""Close code of a server that has answered the last request."""

SOCKET_USE = "openenv.socket_use"
"""Key in the ``state`` of a socket's scope: its ``SocketUse``. Not every server sets it."""

INTERNAL_ERROR = 1011
"""Close code of a server that has failed."""

# Time in seconds after which another task takes over the reading from one that waits for an answer.
_READ_AHEAD_AFTER_S = 1.0
# Requests of one frame that are answered before a flush and a yield to other tasks: the client reads these answers
# while the next ones are computed.
_REQUESTS_IN_A_ROW = 32
# Limit on the requests under way of one socket, and the least limit on the bytes of their frames; above a limit, no
# further frame is processed.
_MOST_UNDER_WAY = 16_384
_MOST_BYTES_UNDER_WAY = 16 * 1024 * 1024
# Limit on the characters of unsent answers; above the limit, the socket's sessions wait.
_MOST_UNSENT = 1024 * 1024


class SocketUse:
    """Use of a socket, as the server's protocol and the application tell each other.

    Attributes:
        lost: Done when the socket is lost; set by the protocol.
        is_idle: Returns whether the socket holds no session and no request, so that it may be closed to make room for
            another client; set by an application that can tell.
    """

    def __init__(self, lost: "asyncio.Future[None]") -> None:
        self.lost = lost
        self.is_idle: Callable[[], bool] = _never


def _never() -> bool:
    return False


class Frame:
    """Frame with requests under way: it counts until the last of them has ended.

    Args:
        size: Number of characters, which are bytes unless the frame holds other letters than ASCII's.

    Attributes:
        size: As above.
        requests: Number of its requests under way.
    """

    __slots__ = ("requests", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.requests = 0


class Wire(Protocol[MessageT, AnswerT]):
    """How the frames of one socket are read and written, and where its requests go.

    Attributes:
        commits: Whether ``commit`` has to be awaited before answers are sent.
    """

    commits: bool

    @property
    def holds_session(self) -> bool:
        """True if the socket holds a session, or is about to."""
        ...

    def start(self, connection: "Connection[Any, Any]") -> None:
        """Begin, before the first frame is read.

        Args:
            connection: The socket.
        """

    def decode(self, frame: str | None, max_bytes: int) -> Iterable[MessageT]:
        """Return the messages of a frame, with errors in place of invalid ones.

        Args:
            frame: The frame's text; ``None`` for a binary frame.
            max_bytes: Maximum length of a message, in bytes of UTF-8.
        """
        ...

    def submit(self, message: MessageT) -> Started[AnswerT | None]:
        """Carry out a message.

        Returns:
            The answer, or a coroutine that returns it; ``None`` if it follows later, or if there is none.
        """
        ...

    def server_error(self) -> AnswerT:
        """Return the answer to a frame on which the server itself failed."""
        ...

    async def commit(self, answers: list[AnswerT]) -> list[AnswerT]:
        """Record answers before they are sent.

        Args:
            answers: The answers.

        Returns:
            The answers to send.
        """
        ...

    def frames(self, answers: list[AnswerT]) -> Iterable[str | bytes]:
        """Return the frames for some answers: the text of a text frame, the bytes of a binary frame."""
        ...

    def length(self, answer: AnswerT) -> int:
        """Return about how many characters an answer has."""
        ...

    def close(self, code: int | None) -> None:
        """Release the socket's sessions.

        Args:
            code: Close code of the client; ``None`` if the client sent none.
        """


class ReadAhead:
    """Lets connections read ahead whose requests take long.

    One timer serves all connections of a server: a timer for each request would cost more than many a step.
    """

    def __init__(self) -> None:
        self._since: dict[Connection[Any, Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Prepare for a connection on the running event loop: an application may be served again, on another loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer, self._since = loop, None, {}

    def add(self, connection: "Connection[Any, Any]") -> None:
        """Note that a connection's reader begins to wait for an answer."""
        self._since[connection] = time.monotonic()
        if self._timer is None:
            self._wait()

    def remove(self, connection: "Connection[Any, Any]") -> None:
        """Note that the wait is over; not needed after ``Connection.read_ahead``."""
        self._since.pop(connection, None)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_READ_AHEAD_AFTER_S, self._look)

    def _look(self) -> None:
        latest = time.monotonic() - _READ_AHEAD_AFTER_S
        for connection in [each for each, since in self._since.items() if since <= latest]:
            del self._since[connection]
            connection.read_ahead()
        self._timer = None
        if self._since:
            self._wait()


class Connection(Generic[MessageT, AnswerT]):
    """One accepted socket.

    Args:
        wire: How its frames are read and written.
        receive: The socket's ASGI ``receive``.
        send: The socket's ASGI ``send``.
        metrics: Metrics to count in.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8: so much may always be under way.
        read_ahead: Lets it read ahead; shared by the connections of a server.
        use: Use of the socket; ``None`` if only ``receive`` returns that the socket is lost.
    """

    def __init__(
        self,
        wire: Wire[MessageT, AnswerT],
        receive: Receive,
        send: Send,
        metrics: Metrics,
        max_message_bytes: int,
        read_ahead: ReadAhead,
        use: SocketUse | None = None,
    ) -> None:
        self._wire = wire
        self._receive = receive
        self._send = send
        self._metrics = metrics
        self._read_ahead = read_ahead
        self._lost = None if use is None else use.lost
        if use is not None:
            use.is_idle = self.is_idle
        self._reader: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._close_code: int | None = None  # with which the server closes the socket
        self._tasks: set[asyncio.Task[None]] = set()
        # Requests under way.
        self._frame_size = 0
        self._frame: Frame | None = None
        self._under_way = 0
        self._bytes_under_way = 0
        self._max_message_bytes = max_message_bytes
        self._most_bytes = max(_MOST_BYTES_UNDER_WAY, max_message_bytes)
        self._room: asyncio.Event | None = None  # while a limit is exceeded
        # Unsent answers.
        self._ready: list[AnswerT] = []
        self._unsent = 0
        self._little_unsent: asyncio.Event | None = None  # while the limit is exceeded
        self._is_sending = False
        self._sent: asyncio.Event | None = None  # while a task waits for the end of a flush

    async def serve(self) -> None:
        """Answer requests until either side closes the socket."""
        code: int | None = None
        self._wire.start(self)
        self._read_ahead.start()
        self.read_ahead()
        try:
            code = await self._ended
        finally:
            self._end(None)
            self._read_ahead.remove(self)
            try:
                await self._cancel_tasks()
            finally:
                self._wire.close(code)
        if self._close_code is not None:
            await self._send_close(self._close_code)

    def is_idle(self) -> bool:
        """Return whether the socket holds no session, and no request is under way."""
        return not (self._under_way or self._wire.holds_session)

    def read_ahead(self) -> None:
        """Read on in a new task. The one that has read until now ends with the answers that it waits for."""
        self._reader = self.spawn(self._read())

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine in a task that is cancelled at the connection's end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def begin(self) -> Frame:
        """Count a request of the frame that is being processed as under way.

        Returns:
            The frame, for ``end``.
        """
        if self._frame is None:
            self._frame = Frame(self._frame_size)
            self._bytes_under_way += self._frame_size
        self._frame.requests += 1
        self._under_way += 1
        if self._room is None and (self._under_way >= _MOST_UNDER_WAY or self._bytes_under_way > self._most_bytes):
            self._room = asyncio.Event()
        return self._frame

    def end(self, frame: Frame) -> None:
        """Count a request as ended.

        Args:
            frame: The frame that ``begin`` returned.
        """
        self._under_way -= 1
        frame.requests -= 1
        if frame.requests == 0:
            self._bytes_under_way -= frame.size
            if frame is self._frame:
                self._frame = None
        if self._room is None or self._under_way >= _MOST_UNDER_WAY or self._bytes_under_way > self._most_bytes:
            return
        self._room.set()
        self._room = None

    def send_soon(self, answer: AnswerT) -> None:
        """Queue an answer for the next flush."""
        if self._ended.done():
            return
        self._ready.append(answer)
        self._unsent += self._wire.length(answer)
        if self._unsent > _MOST_UNSENT and self._little_unsent is None:
            self._little_unsent = asyncio.Event()
        if len(self._ready) == 1 and not self._is_sending:
            self.spawn(self._flush())

    async def send(self, answer: AnswerT | None) -> None:
        """Send an answer after those that are ready; ``None`` sends only those."""
        if answer is not None:
            self._ready.append(answer)
        await self._flush()

    def replace_unsent(self, replace: Callable[[list[AnswerT]], list[AnswerT]]) -> None:
        """Replace the unsent answers.

        Args:
            replace: Returns the new ones.
        """
        self._ready = replace(self._ready)
        if self._ready and not self._ended.done() and not self._is_sending:
            self.spawn(self._flush())

    def close_after_answers(self, code: int = NORMAL_CLOSURE) -> None:
        """Close the socket when the answers that are ready have been sent.

        Args:
            code: Close code.
        """
        self._close_code = code

    @property
    def has_room(self) -> bool:
        """Whether the unsent answers are within the limit."""
        return self._little_unsent is None

    async def room(self) -> None:
        """Wait until the unsent answers are within the limit; may be cancelled."""
        if self._little_unsent is not None:
            await self._little_unsent.wait()

    async def _read(self) -> None:
        wire, metrics, reader = self._wire, self._metrics, asyncio.current_task()
        flush = self._flush_in_task if wire.commits else self._flush
        while self._reader is reader and not self._ended.done():
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                self._end(event.get("code"))
                return
            if self._room is not None:  # after receive(), which returns the disconnect
                await self._until(self._room)
            text = event.get("text")
            self._frame, self._frame_size = None, len(text or "")
            metrics.frames_in += 1
            metrics.characters_in += self._frame_size
            try:
                for count, message in enumerate(wire.decode(text, self._max_message_bytes), 1):
                    if self._frame_size > LONG_MESSAGE:  # to parse it took milliseconds, as to carry it out may
                        await asyncio.sleep(0)
                    answer: Any = wire.submit(message)
                    if isinstance(answer, CoroutineType):
                        self._read_ahead.add(self)
                        answer = await answer
                        self._read_ahead.remove(self)
                    if answer is not None:
                        self._ready.append(answer)
                    if count % _REQUESTS_IN_A_ROW == 0:
                        await flush()
                        await asyncio.sleep(0)
            except Exception:
                self._read_ahead.remove(self)
                logger.exception("the server failed on a frame")
                self._ready.append(self._wire.server_error())
            await flush()

    async def _until(self, room: asyncio.Event) -> None:
        """Wait until fewer requests are under way, or the socket is lost, which frames not read yet would hide."""
        if self._lost is None:
            await room.wait()
            return
        self._lost.add_done_callback(self._socket_lost)
        try:
            await room.wait()
        finally:
            self._lost.remove_done_callback(self._socket_lost)

    def _socket_lost(self, _lost: "asyncio.Future[None]") -> None:
        self._end(None)

    async def _flush_in_task(self) -> None:
        """Flush in a task, so that further requests are carried out during a commit and share the next commit.

        The reader waits for the flush above the limit of unsent answers, and where the socket is to be closed.
        """
        if self._ready and not self._is_sending:
            self.spawn(self._flush())
        if self._close_code is not None or sum(map(self._wire.length, self._ready)) > _MOST_UNSENT:
            await self._flush()

    async def _flush(self) -> None:
        """Send the answers that are ready, and those that become ready meanwhile, after a flush under way.

        A client that does not read blocks the flush, and with it the reading of further requests.
        """
        wire, metrics = self._wire, self._metrics
        if self._is_sending:
            self._sent = self._sent or asyncio.Event()
            await self._sent.wait()
            return
        self._is_sending = True
        try:
            while self._ready and not self._ended.done():
                answers, self._ready = self._ready, []
                if self._unsent:
                    self._reset_unsent()
                if wire.commits:
                    answers = await wire.commit(answers)
                for frame in wire.frames(answers):
                    metrics.frames_out += 1
                    metrics.characters_out += len(frame)
                    try:
                        kind = "text" if isinstance(frame, str) else "bytes"
                        await self._send({"type": "websocket.send", kind: frame})
                    except (OSError, RuntimeError) as error:  # RuntimeError: uvicorn has closed the socket itself
                        logger.debug("a client went while it was being answered: %s", error)
                        self._end(None)
                        break
        finally:
            self._is_sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None
        if self._close_code is not None:
            self._end(None)

    def _reset_unsent(self) -> None:
        self._unsent = 0
        if self._little_unsent is not None:
            self._little_unsent.set()
            self._little_unsent = None

    async def _send_close(self, code: int) -> None:
        try:
            await self._send({"type": "websocket.close", "code": code})
        except (OSError, RuntimeError) as error:
            logger.debug("a client went before its socket was closed: %s", error)

    def _end(self, code: int | None) -> None:
        if not self._ended.done():
            self._ended.set_result(code)
        self._reset_unsent()

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("the server failed on a socket, and closes it", exc_info=error)
            self.close_after_answers(INTERNAL_ERROR)
            self._end(None)

    async def _cancel_tasks(self) -> None:
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:  # without them the session's slot is free at once, for a client that connects again
            await asyncio.wait(running)
