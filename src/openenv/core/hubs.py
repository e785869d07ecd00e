"""The sessions of v1, which share connections, and how a session is opened on either wire.

The sessions of an event loop with one server share a connection, or as many as the server has worker processes: what
several of them ask at the same time leaves in one frame.
"""

import asyncio
import os
import re
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic_core import to_json

from openenv.core.answers import Answer, invalid_answer
from openenv.core.connection import CLOSE_TIMEOUT_S, Connection, ConnectionSettings, open_connection
from openenv.core.env_server.protocol import V1, WORKERS_HEADER, error_data
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    MessageTooLargeError,
    OpenEnvError,
)
from openenv.core.links import LegacyLink, Link, fail, given_up, parsed

# Bytes after which no further message is put into a frame, so that the server begins while the rest is being sent.
_FULL_FRAME = 64 * 1024
# How much longer than the longest answer a frame may be: what the wire allows, and more for a server that counts a full
# frame in characters, of up to 4 bytes.
_FURTHER_BYTES = 5 * _FULL_FRAME
_WORKERS = re.compile(r"[1-9]\d{0,3}", re.ASCII)


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
        self._encoded_session = to_json(session)
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
        message = self.prepare(kind, data, answer)
        if message is not None:
            self.hub.post(message)

    def prepare(self, kind: bytes, data: bytes | None, answer: Answer) -> bytes | None:
        """Write a request, for the hub to send, and expect its answer; ``None`` where it is answered here and now."""
        self.asked = True
        if self._refusal is not None:
            self.usable = False
            answer.set_result(self._refusal)
            return None
        if not self.usable:  # since its caller looked, which may have been in another thread
            answer.set_exception(given_up() if self.connection.is_open else self.connection.lost_error())
            return None
        if data is not None and self.max_message_bytes is not None and len(data) > self.max_message_bytes:
            answer.set_result(_too_large(len(data), self.max_message_bytes))
            return None
        number = self._expect(answer)
        if data is None:
            return b'{"type":"%b","id":%d,"session":%b}' % (kind, number, self._encoded_session)
        return b'{"type":"%b","id":%d,"session":%b,"data":%b}' % (kind, number, self._encoded_session, data)

    def close_message(self, answer: Answer) -> bytes:
        """Write the message that ends the session."""
        return b'{"type":"close","id":%d,"session":%b}' % (self._expect(answer), self._encoded_session)

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

    def abandon(self) -> None:
        """Let go of a session whose loop does not run."""
        self.usable = False
        self.hub.abandon(self)

    async def _end(self) -> None:
        await self.hub.end(self)


class Hub:
    """The sessions of one connection on v1.

    Args:
        connection: The connection.
        hubs: Those that it is one of, which live as long as any of them.
        max_message_bytes: Longest answer to accept.
    """

    def __init__(self, connection: Connection, hubs: "Hubs", max_message_bytes: int) -> None:
        self.connection = connection
        self.hubs = hubs
        self._links: dict[str, V1Link] = {}
        self._opening: dict[int, asyncio.Future[V1Link]] = {}
        # Numbers of those that nobody waits for any more: the session that the server opens has to be ended.
        self._unwanted: set[int] = set()
        self._last_id = 0
        self._open_data = b'{"max_message_bytes":%d}' % max_message_bytes
        self._outbox: list[bytes] = []
        self._turn_is_noted = False
        connection.protocol.max_message_size = max_message_bytes + _FURTHER_BYTES
        connection.hand_over(self)

    def __len__(self) -> int:
        """Sessions that it has or is opening."""
        return len(self._links) + len(self._opening)

    async def open(self, timeout_s: float | None) -> V1Link:
        """Open a session, or learn why the server opens none.

        Args:
            timeout_s: Seconds that the server may take, which has to make an environment; ``None`` for no limit.

        Raises:
            ConnectionFailedError: The server did not answer.
            ConnectionLostError: The connection went.
            InvalidAnswerError: What came is no answer.
        """
        self._last_id = number = self._last_id + 1
        opening: asyncio.Future[V1Link] = self.connection.loop.create_future()
        self._opening[number] = opening
        self.post(b'{"type":"open","id":%d,"data":%b}' % (number, self._open_data))
        try:
            async with asyncio.timeout(timeout_s):
                return await opening
        except BaseException as error:
            self._give_up(number, opening)
            if isinstance(error, TimeoutError):
                raise ConnectionFailedError(
                    f"The server did not open a session within {timeout_s} s (message_timeout_s)."
                ) from error
            raise
        finally:
            self._close_if_unused()

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
        try:
            if link.session in self._links and self.connection.is_open:
                closed: asyncio.Future[Any] = self.connection.loop.create_future()
                self.post(link.close_message(closed))
                with suppress(OpenEnvError, TimeoutError):
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await closed
        finally:
            self.leave(link)
        if not self.connection.usable:
            await self.connection.close()

    def abandon(self, link: V1Link) -> None:
        """End a session whose loop does not run: with the last one the connection, else when the loop runs again."""
        closing = link.close_message(_Nobody())
        known = self._links.pop(link.session, None) is not None
        if not self or not self.connection.may_go_on:
            self.connection.abandon()
        elif known:
            self.connection.loop.call_soon_threadsafe(self.post, closing)

    def leave(self, link: V1Link) -> None:
        """Forget a session, telling everybody who waits, and close the connection with the last one."""
        if self._links.pop(link.session, None) is None:
            return
        link.usable = False
        self._close_if_unused()
        fail(link.waiting.values(), given_up)
        link.waiting.clear()

    def received(self, message: bytes) -> None:
        """Give the answers of a frame to those who asked."""
        document = parsed(message)
        for answer in document if isinstance(document, list) else [document]:
            self._deliver(answer)

    def lost(self) -> None:
        """Tell everybody who waits that no answer will come."""
        fail(self._opening.values(), self.connection.lost_error)
        self._opening.clear()
        for link in list(self._links.values()):
            link.usable = False
            fail(link.waiting.values(), self.connection.lost_error)
            link.waiting.clear()
        self._links.clear()

    def _deliver(self, message: Any) -> None:
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(number, int):
            self._deliver_to_all(message)
            return
        session = message.get("session")
        if (session is None or message.get("type") == "opened") and self._deliver_opened(number, message):
            return
        link = self._links.get(session) if isinstance(session, str) else None
        # Else its session has been given up, or its caller was cancelled.
        answer = None if link is None else link.waiting.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _deliver_opened(self, number: int, message: dict[str, Any]) -> bool:
        """Give an answer to whoever opens a session, if somebody does or did by this number."""
        opening = self._opening.pop(number, None)
        if opening is not None:
            self._settle(opening, message)
        elif number in self._unwanted:
            self._unwanted.remove(number)
            with suppress(InvalidAnswerError):
                self.drop(self._opened(message))
        else:
            return False
        return True

    def _settle(self, opening: "asyncio.Future[V1Link]", message: Any) -> None:
        try:
            link = self._opened(message)
        except InvalidAnswerError as error:
            fail([opening], partial(_copy, error))
            return
        if opening.done():  # cancelled just now, and whoever waited has not had its turn yet
            self.drop(link)
        else:
            opening.set_result(link)

    def _opened(self, message: Any) -> V1Link:
        """Make the session that the server has opened, or the one that says why there is none.

        Raises:
            InvalidAnswerError: It is neither.
        """
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "error":
            return V1Link(self, "", refusal=message)
        if kind == "opened" and isinstance(message.get("id"), int):
            session, data = message.get("session"), message.get("data")
            if isinstance(session, str) and session not in self._links:
                link = self._links[session] = V1Link(self, session)
                limit = data.get("max_message_bytes") if isinstance(data, dict) else None
                link.max_message_bytes = limit if isinstance(limit, int) else None
                return link
        raise invalid_answer("opened", message)

    def _give_up(self, number: int, opening: "asyncio.Future[V1Link]") -> None:
        """End the session that nobody waits for any more, now or when the server has opened it."""
        if self._opening.pop(number, None) is not None:
            self._unwanted.add(number)
        elif not opening.cancelled() and opening.exception() is None:
            self.drop(opening.result())

    def _deliver_to_all(self, message: Any) -> None:
        """A frame that could not be read, by either side: nobody knows whose answer is missing."""
        openings = list(self._opening.values())
        self._opening.clear()
        for opening in openings:
            self._settle(opening, message)
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
        self._failure: OpenEnvError | None = None
        self._hubs: list[Hub] = []
        self._width = 1
        self._is_legacy = False

    async def link(self, timeout_s: float | None) -> Link:
        """Open a session, over a connection that there is or a new one.

        Args:
            timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.

        Raises:
            ConfigurationError: The address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ConnectionLostError: The connection went meanwhile.
            InvalidAnswerError: The server sent something that is no answer.
        """
        # Each of them may have gone without anybody noticing, and the first new one may reach a server that is ending.
        for _ in range(len(self._hubs) + 1):
            with suppress(ConnectionLostError):
                return await self._link(timeout_s)
        return await self._link(timeout_s)

    async def _link(self, timeout_s: float | None) -> Link:
        connection = None if self._is_legacy else await self._further_connection()
        if connection is None and self._is_legacy:  # as far as is known; each session connects for itself
            connection = await open_connection(self._settings)
        if connection is None:
            return await min(self._hubs, key=len).open(timeout_s)
        self._is_legacy = connection.subprotocol != V1
        if self._is_legacy:
            return LegacyLink(connection)
        hub = Hub(connection, self, self._settings.max_message_bytes)
        self._hubs.append(hub)
        self._width = _worker_count(connection)
        return await hub.open(timeout_s)

    async def _further_connection(self) -> Connection | None:
        """Connect, unless there are connections enough to share or each session has its own.

        Of calls that come together the first one connects; where it fails, the others need not try again. What there is
        already is shared then: a server of several workers may have lost one of them. Whoever waits for the lock sees
        what happens from its release to the next wait.
        """
        failure = self._failure
        async with self._connecting:
            self._hubs = [hub for hub in self._hubs if hub.connection.is_open]
            if self._is_legacy or len(self._hubs) >= self._width:
                return None
            if self._failure is failure:
                try:
                    return await open_connection(self._settings)
                except OpenEnvError as error:
                    self._failure = _copy(error)
                    if not self._hubs:
                        raise
            elif self._failure is not None and not self._hubs:
                raise _copy(self._failure)
            return None


class _Nobody:
    """Waits for an answer that is of no interest."""

    def set_result(self, message: Any, /) -> None:
        """Do nothing."""

    def set_exception(self, error: BaseException, /) -> None:
        """Do nothing."""

    def done(self) -> bool:
        """Nobody waits."""
        return True


# Neither a loop nor a connection is kept alive by being in here.
_HubsOfServers: TypeAlias = WeakValueDictionary[ConnectionSettings, Hubs]
_hubs_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _HubsOfServers] = WeakKeyDictionary()


async def open_link(settings: ConnectionSettings, timeout_s: float | None) -> Link:
    """Open a session with a server, sharing a connection with others of this loop where the server has v1.

    Args:
        settings: Where to connect to, and how.
        timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ConnectionLostError: The connection went meanwhile.
        InvalidAnswerError: The server sent something that is no answer.
    """
    hubs_of_server = _hubs_of_loop.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    hubs = hubs_of_server.get(settings)
    if hubs is None:
        hubs = hubs_of_server[settings] = Hubs(settings)
    return await hubs.link(timeout_s)


if hasattr(os, "register_at_fork"):  # a child may run a loop of its parent's making, whose connections are not its own
    os.register_at_fork(after_in_child=_hubs_of_loop.clear)


def _too_large(size: int, limit: int) -> dict[str, Any]:
    """Make the answer that the server would give."""
    return {"type": "error", "data": error_data(MessageTooLargeError(size, limit))}


def _worker_count(connection: Connection) -> int:
    assert connection.response is not None
    headers = connection.response.headers.get_all(WORKERS_HEADER)
    return int(headers[0]) if len(headers) == 1 and _WORKERS.fullmatch(headers[0]) else 1


def _copy(error: OpenEnvError) -> OpenEnvError:
    """Make an error to be raised elsewhere, which has no traceback yet."""
    return type(error)(*error.args)


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
