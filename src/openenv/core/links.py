"""A client's session with its server: requests out, each answer to whoever asked.

On the legacy wire a session has a connection of its own and answers come in the order of the requests. On v1 the
sessions of an event loop with one server share a connection, or as many as the server has worker processes: what
several of them ask at the same time leaves in one frame.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import from_json

from openenv.core.answers import Answer
from openenv.core.connection import CLOSE_TIMEOUT_S, V1, Connection, ConnectionSettings, open_connection
from openenv.core.exceptions import ConnectionFailedError, ConnectionLostError, OpenEnvError, ResponseTimeoutError

# Bytes after which no further message is put into a frame, so that the server begins while the rest is being sent.
_FULL_FRAME = 64 * 1024
_WORKERS_HEADER = "X-OpenEnv-Workers"


class Link(ABC):
    """One session with a server. Everything but ``retire`` is for the connection's own loop.

    Attributes:
        connection: What it goes over.
        usable: Cleared, by any thread, once the session is over or given up.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.usable = True

    @property
    @abstractmethod
    def answers(self) -> bool:
        """Whether a request would be answered, if only with what the server has said already."""

    @abstractmethod
    def ask(self, kind: bytes, data: bytes | None, answer: Answer) -> None:
        """Send a request.

        Args:
            kind: Its ``type``.
            data: Its ``data`` as JSON; ``None`` for a type that has none.
            answer: Learns of the answer, or of the loss of the connection.
        """

    async def exchange(self, kind: bytes, data: bytes | None, timeout_s: float | None) -> Any:
        """Send a request and await its answer. Cancelling is safe: a late answer is not taken for another one.

        Raises:
            ConnectionLostError: The connection went.
            InvalidAnswerError: The answer was too long to be taken.
            ResponseTimeoutError: No answer came in time. The session is given up.
        """
        answer: asyncio.Future[Any] = self.connection.loop.create_future()
        self.ask(kind, data, answer)
        if timeout_s is None or answer.done():
            return await answer
        timer = self.connection.loop.call_later(timeout_s, self._time_out, answer, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()

    def refusal(self) -> Any:
        """Return what the server has said instead of opening a session, or ``None``."""
        return None

    @abstractmethod
    def drop(self) -> None:
        """Give the session up at once."""

    @abstractmethod
    def retire(self) -> None:
        """Let nothing be asked any more, and leave soon; the server has ended the session. Any thread may call this."""

    async def end(self) -> None:
        """End the session, from whichever loop this is called in."""
        self.usable = False
        loop = self.connection.loop
        if loop is asyncio.get_running_loop():
            await self._end()
        elif self.connection.orphaned:
            self.connection.abandon()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), loop))

    @abstractmethod
    async def _end(self) -> None:
        """End the session, in its own loop."""

    def _time_out(self, answer: "asyncio.Future[Any]", timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(timed_out(timeout_s))
            self.drop()


class LegacyLink(Link):
    """A session with a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._waiting: deque[Answer] = deque()
        # What the server said without being asked: the reason for which it is about to close.
        self._unasked: deque[Any] = deque()
        connection.hand_over(self)

    @property
    def answers(self) -> bool:
        """Whether a request would be answered."""
        return self.usable and (self.connection.is_open or bool(self._unasked))

    def ask(self, kind: bytes, data: bytes | None, answer: Answer) -> None:
        """Send a request; see ``Link.ask``."""
        if self._unasked:
            answer.set_result(self._unasked.popleft())
            return
        message = b'{"type":"%b"}' % kind if data is None else b'{"type":"%b","data":%b}' % (kind, data)
        try:
            self.connection.send_message(message)
        except OpenEnvError as error:
            answer.set_exception(error)
        else:
            self._waiting.append(answer)

    def drop(self) -> None:
        """Drop the connection."""
        self.usable = False
        self.connection.drop()

    def retire(self) -> None:
        """Close the connection soon."""
        self.usable = False
        self.connection.retire()

    async def _end(self) -> None:
        self.connection.usable = False
        await self.connection.close()

    def received(self, message: bytes) -> None:
        """Give an answer to whoever has waited longest."""
        parsed = _parsed(message)
        if not self._waiting:
            self._unasked.append(parsed)
            return
        answer = self._waiting.popleft()
        if not answer.done():  # else its caller was cancelled
            answer.set_result(parsed)

    def lost(self) -> None:
        """Tell everybody who waits that no answer will come."""
        _fail(self._waiting, self.connection.lost_error)
        self._waiting.clear()


class V1Link(Link):
    """A session that shares its connection.

    Args:
        hub: The connection's.
        session: The session's id; empty where the server has opened none.
        refusal: What the server said instead; it is the answer to the first request.
    """

    def __init__(self, hub: "Hub", session: str, refusal: Any = None) -> None:
        super().__init__(hub.connection)
        self.hub = hub
        self.session = session
        self.waiting: dict[int, Answer] = {}
        # What the server takes; a longer message is not sent, since its answer could not say whose it is.
        self.max_message_bytes: int | None = None
        self._encoded_session = session.encode()
        self._last_id = 0
        self._refusal = refusal

    @property
    def answers(self) -> bool:
        """Whether a request would be answered."""
        return self.usable and (self.connection.is_open or self._refusal is not None)

    def refusal(self) -> Any:
        """Return what the server has said instead of opening the session."""
        return self._refusal

    def ask(self, kind: bytes, data: bytes | None, answer: Answer) -> None:
        """Send a request; see ``Link.ask``."""
        if self._refusal is not None:
            answer.set_result(self._refusal)
            self.usable = False
            return
        message = self.prepare(kind, data, answer)
        if message is not None:
            self.hub.post(message)

    def prepare(self, kind: bytes, data: bytes | None, answer: Answer) -> bytes | None:
        """Write a request, for the hub to send, and expect its answer; ``None`` where it is refused here and now."""
        if data is not None and self.max_message_bytes is not None and len(data) > self.max_message_bytes:
            answer.set_result(_too_large(len(data), self.max_message_bytes))
            return None
        number = self._expect(answer)
        if data is None:
            return b'{"type":"%b","id":%d,"session":"%b"}' % (kind, number, self._encoded_session)
        return b'{"type":"%b","id":%d,"session":"%b","data":%b}' % (kind, number, self._encoded_session, data)

    def close_message(self, answer: Answer) -> bytes:
        """Write the message that ends the session."""
        return b'{"type":"close","id":%d,"session":"%b"}' % (self._expect(answer), self._encoded_session)

    def _expect(self, answer: Answer) -> int:
        self._last_id += 1
        self.waiting[self._last_id] = answer
        return self._last_id

    def drop(self) -> None:
        """Have the server end the session, whatever it is doing, and tell everybody who waits."""
        self.usable = False
        self.hub.drop(self)

    def retire(self) -> None:
        """Leave the hub soon."""
        self.usable = False
        self.connection.loop.call_soon_threadsafe(self.hub.leave, self)

    async def _end(self) -> None:
        await self.hub.end(self)


class Hub:
    """The sessions of one connection on v1.

    Args:
        connection: The connection.
        max_message_bytes: Longest answer to accept.
    """

    def __init__(self, connection: Connection, max_message_bytes: int) -> None:
        self.connection = connection
        self._links: dict[str, V1Link] = {}
        self._opening: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._open_data = b'{"max_message_bytes":%d}' % max_message_bytes
        self._outbox: list[bytes] = []
        self._turn_is_noted = False
        connection.protocol.max_message_size = max_message_bytes + 2 * _FULL_FRAME
        connection.hand_over(self)

    def __len__(self) -> int:
        """Sessions that it has or is opening."""
        return len(self._links) + len(self._opening)

    async def open(self, timeout_s: float) -> V1Link:
        """Open a session, or learn why the server opens none.

        Raises:
            ConnectionFailedError: The server did not answer.
            ConnectionLostError: The connection went.
        """
        self._last_id = number = self._last_id + 1
        answer = self._opening[number] = self.connection.loop.create_future()
        self.post(b'{"type":"open","id":%d,"data":%b}' % (number, self._open_data))
        try:
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError as error:
            raise ConnectionFailedError(f"The server did not open a session within {timeout_s} s.") from error
        finally:
            del self._opening[number]
            self._close_if_unused()
        if isinstance(message, dict) and message.get("type") == "opened" and isinstance(message.get("session"), str):
            return self._links[message["session"]]
        return V1Link(self, "", refusal=message)

    def post(self, message: bytes) -> None:
        """Send a message: at once where it is the first in the loop's turn, else with the turn's others."""
        if self._turn_is_noted:
            self._outbox.append(message)
            return
        self._turn_is_noted = True
        self.connection.loop.call_soon(self._end_turn)
        self.send([message])

    def send(self, messages: list[bytes]) -> None:
        """Send messages in as few frames as make sense. A connection that has gone fails all who wait."""
        try:
            for frame in _frames(messages):
                self.connection.send_message(frame)
        except OpenEnvError:
            self.lost()

    def drop(self, link: V1Link) -> None:
        """Have a session ended without waiting for it."""
        if link.session in self._links and self.connection.is_open:
            self.post(link.close_message(_Nobody()))
        self.leave(link)

    async def end(self, link: V1Link) -> None:
        """End a session, and the connection with its last one."""
        if link.session in self._links and self.connection.is_open:
            closed: asyncio.Future[Any] = self.connection.loop.create_future()
            self.post(link.close_message(closed))
            with suppress(OpenEnvError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await closed
        self.leave(link)
        if not self.connection.usable:
            await self.connection.close()

    def leave(self, link: V1Link) -> None:
        """Forget a session, telling everybody who waits, and close the connection with the last one."""
        if self._links.pop(link.session, None) is None:
            return
        link.usable = False
        self._close_if_unused()
        _fail(link.waiting.values(), _given_up)
        link.waiting.clear()

    def received(self, message: bytes) -> None:
        """Give the answers of a frame to those who asked."""
        parsed = _parsed(message)
        for answer in parsed if isinstance(parsed, list) else [parsed]:
            self._deliver(answer)

    def lost(self) -> None:
        """Tell everybody who waits that no answer will come."""
        _fail(self._opening.values(), self.connection.lost_error)
        for link in list(self._links.values()):
            link.usable = False
            _fail(link.waiting.values(), self.connection.lost_error)
            link.waiting.clear()
        self._links.clear()

    def _deliver(self, message: Any) -> None:
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(number, int):
            self._deliver_to_all(message)
            return
        link = self._links.get(str(message.get("session")))
        if link is not None:
            answer = link.waiting.pop(number, None)
            if answer is not None and not answer.done():  # else its caller was cancelled
                answer.set_result(message)
        elif number in self._opening:
            self._deliver_opened(message, self._opening[number])

    def _deliver_opened(self, message: Any, opening: "asyncio.Future[Any]") -> None:
        session = message.get("session")
        if isinstance(session, str):
            # At once, not when the opener runs: a session whose opener was cancelled has to be ended.
            link = self._links[session] = V1Link(self, session)
            limit = message.get("data", {}).get("max_message_bytes")
            link.max_message_bytes = limit if isinstance(limit, int) else None
            if opening.done():
                self.drop(link)
        if not opening.done():
            opening.set_result(message)

    def _deliver_to_all(self, message: Any) -> None:
        """A frame that could not be read, by either side: nobody knows whose answer is missing."""
        for link in list(self._links.values()):
            for answer in list(link.waiting.values()):
                if not answer.done():
                    answer.set_result(message)
            link.waiting.clear()
        self.connection.drop()

    def _end_turn(self) -> None:
        self._turn_is_noted = False
        if self._outbox:
            messages, self._outbox = self._outbox, []
            self.send(messages)

    def _close_if_unused(self) -> None:
        if not self and self.connection.usable:
            self.connection.retire()


class Hubs:
    """The connections of one event loop to one server.

    Args:
        settings: Where to connect to, and how.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._connecting = asyncio.Lock()
        self._hubs: list[Hub] = []
        self._width = 1
        self._is_legacy = False

    async def link(self) -> Link:
        """Open a session, over a connection that there is or a new one.

        Raises:
            ConfigurationError: The address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ConnectionLostError: The connection went meanwhile.
        """
        if self._is_legacy:  # as far as is known; each session connects for itself, all at the same time
            return await self._link_over(await open_connection(self._settings))
        async with self._connecting:  # of calls that come together, the first one connects
            self._hubs = [hub for hub in self._hubs if hub.connection.is_open]
            connection = await open_connection(self._settings) if len(self._hubs) < self._width else None
        # Whoever waits for the lock sees what happens from here to the next wait.
        return await (self._link_over(connection) if connection is not None else self._shared_link())

    async def _link_over(self, connection: Connection) -> Link:
        self._is_legacy = connection.subprotocol != V1
        if self._is_legacy:
            return LegacyLink(connection)
        hub = Hub(connection, self._settings.max_message_bytes)
        self._hubs.append(hub)
        assert connection.response is not None
        self._width = int(connection.response.headers.get(_WORKERS_HEADER, "1"))
        return await hub.open(self._settings.connect_timeout_s)

    async def _shared_link(self) -> Link:
        try:
            return await min(self._hubs, key=len).open(self._settings.connect_timeout_s)
        except ConnectionLostError:  # it had gone, and nobody had noticed
            return await self.link()


class _Nobody:
    """Waits for an answer that is of no interest."""

    def set_result(self, message: Any, /) -> None:
        """Do nothing."""

    def set_exception(self, error: BaseException, /) -> None:
        """Do nothing."""

    def done(self) -> bool:
        """Nobody waits."""
        return True


_hubs_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ConnectionSettings, Hubs]] = WeakKeyDictionary()
# A forked child must not collect its parent's connections; see connection.py.
_of_the_parent: list[Any] = []


async def open_link(settings: ConnectionSettings) -> Link:
    """Open a session with a server, sharing a connection with others of this loop where the server has v1.

    Args:
        settings: Where to connect to, and how.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ConnectionLostError: The connection went meanwhile.
    """
    hubs_of_server = _hubs_of_loop.setdefault(asyncio.get_running_loop(), {})
    hubs = hubs_of_server.get(settings)
    if hubs is None:
        hubs = hubs_of_server[settings] = Hubs(settings)
    return await hubs.link()


def _forget_after_fork() -> None:
    _of_the_parent.append(dict(_hubs_of_loop))
    _hubs_of_loop.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def timed_out(timeout_s: float | None) -> ResponseTimeoutError:
    """Make the error for an answer that did not come."""
    return ResponseTimeoutError(
        f"The server did not answer within {timeout_s} s (message_timeout_s). The session was given up, since a late "
        "answer could be taken for another one; the next call opens a new session."
    )


def _too_large(size: int, limit: int) -> dict[str, Any]:
    """Make the answer that the server would give."""
    text = f"The message has {size} bytes; this server accepts {limit}."
    return {"type": "error", "data": {"code": "TOO_LARGE", "message": text, "size": size, "limit": limit}}


def _parsed(message: bytes) -> Any:
    """Return the object or array that a frame holds, or the frame itself where it holds none."""
    try:
        parsed = from_json(message)
    except ValueError:
        return message
    return parsed if isinstance(parsed, dict | list) else message


def _frames(messages: list[bytes]) -> list[bytes]:
    if len(messages) == 1:
        return messages
    frames, start, size = [], 0, 0
    for end, message in enumerate(messages, 1):
        size += len(message)
        if size >= _FULL_FRAME or end == len(messages):
            frames.append(b"[" + b",".join(messages[start:end]) + b"]")
            start, size = end, 0
    return frames


def _fail(waiting: Iterable[Answer], make_error: Callable[[], OpenEnvError]) -> None:
    """Tell everybody who waits, each with an error of its own: it takes the traceback of where it is raised."""
    for answer in list(waiting):
        if not answer.done():
            answer.set_exception(make_error())


def _given_up() -> OpenEnvError:
    return ConnectionLostError(
        "The client closed the session, by close() or since another call got no answer in time, before the answer "
        "came. The next call opens a new session."
    )
