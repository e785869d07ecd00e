"""Follower of a session: a socket on which the session's entries are sent as they come.

The server sends JSON objects, each with some of these fields:

- ``session``: the session's row of the table, first of all and then every two seconds;
- ``feed`` and ``resumed``, with the first row: the id of the feed, and whether it goes on behind ``after``;
- ``entries``, and ``missed``: how many entries before these are not on record any more;
- ``ended``: why there is nothing more to follow.

The client answers entries with ``{"seen": number}``, the number of the last one, and never has much more than
``_MOST_UNSEEN`` entries, or ``_MOST_UNSEEN_CHARACTERS``, on their way. A client that falls behind reads the others from
the session's feed later, and beyond the feed's limits from the record of the session's requests. One that sees nothing
for long is disconnected.

All followers of a server share an allowance of messages and characters in a second, so that sessions go on: the more
followers there are, and the more a session's entries hold, the longer each waits between two messages.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from openenv.core.env_server.sessions.following import MOST_CHARACTERS, FeedEntry, SessionFeed
from openenv.core.env_server.traces.encoding import encoded

_MOST_UNSEEN = 512
_MOST_UNSEEN_CHARACTERS = 1024 * 1024
_BATCH = 256
_BATCH_CHARACTERS = 256 * 1024
# Time in which a client has to see something of what was sent, once it has room for no more.
_SEEN_WITHIN_S = 60.0
# Allowance of all followers of a server, in a second.
_MESSAGES_PER_S = 560
_CHARACTERS_PER_S = 16 * 1024 * 1024
# Between two readings of the record, which holds a whole episode, for one follower.
_RECORD_EVERY_S = 5.0
_MOST_OF_RECORD = 128 * 1024 * 1024
# Between two messages with entries: what comes meanwhile is sent together, for a page that is drawn 60 times a second.
_PAUSE_S = 1 / 70
_ROW_EVERY_S = 2.0
_BAD_MESSAGE = 1003
_TRY_AGAIN_LATER = 1013
# How JSON names numbers that it has no form for, where environments send them.
_NO_NUMBERS = (b"NaN", b"Infinity")


class Followers:
    """Followers of a server, whose number is limited.

    Args:
        most: Followers at once.
        most_of_session: Followers of one session at once.

    Attributes:
        count: Number of the followers.
        reading: Held by the follower that reads the record.
    """

    def __init__(self, most: int = 128, most_of_session: int = 16) -> None:
        self.count = 0
        self.reading = asyncio.Lock()
        self._most = most
        self._most_of_session = most_of_session

    def refusal(self, feed: SessionFeed) -> str | None:
        """Return why a feed can have no further follower; ``None`` if it can."""
        if feed.followers >= self._most_of_session:
            return f"{feed.followers} others follow this session, which is as many as may; try again later."
        if self.count >= self._most:
            return f"{self.count} followers are on this server, which is as many as may be; try again later."
        return None

    @property
    def most_of_record(self) -> int:
        """Characters that one follower gets from the record at once; all followers hold about ``_MOST_OF_RECORD``."""
        return max(MOST_CHARACTERS, _MOST_OF_RECORD // max(1, self.count))

    def pause_s(self, characters: int) -> float:
        """Return how long a follower waits after a message with so many characters."""
        return max(_PAUSE_S, self.count / _MESSAGES_PER_S, self.count * characters / _CHARACTERS_PER_S)


async def refuse(socket: WebSocket, reason: str) -> None:
    """Tell a client why there is nothing to follow, and close its socket."""
    with suppress(WebSocketDisconnect, RuntimeError, OSError):  # which servers raise once the client is gone
        await socket.send_json({"ended": reason})
        await socket.close(_TRY_AGAIN_LATER)


class Follower:
    """Follower of one session on one socket.

    Args:
        socket: The accepted socket.
        feed: The session's feed.
        row: Returns the session's row of the table.
        recorded: Returns the entries of the current episode that are on record, before an episode's step if one is
            named.
        secrets: Returns the secrets that are left out of what is sent, longest first.
        followers: All followers of the server.
    """

    def __init__(
        self,
        socket: WebSocket,
        feed: SessionFeed,
        row: Callable[[], dict[str, Any]],
        recorded: Callable[[tuple[int, int] | None], Awaitable[list[FeedEntry]]],
        secrets: Callable[[], Sequence[str]],
        followers: Followers,
    ) -> None:
        self._socket = socket
        self._followers = followers
        self._unseen: deque[tuple[int, int]] = deque()  # numbers and sizes of what was sent and not seen yet
        self._record_due = 0.0
        self._feed = feed
        self._row = row
        self._recorded = recorded
        self._secrets = secrets
        self._sent = 0  # number of the last entry
        self._seen = 0
        self._position = (0, -1)  # episode and step of the last entry
        self._row_due = 0.0
        self._has_room = asyncio.Event()

    async def serve(self, feed: str, after: int) -> None:
        """Send the session's entries until the session ends, or the client closes the socket.

        Args:
            feed: Id of the feed that the client has followed before; empty for none.
            after: Number of the last entry that the client has.
        """
        tasks = (asyncio.create_task(self._read()), asyncio.create_task(self._write(feed, after)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            with suppress(WebSocketDisconnect, RuntimeError, OSError):  # which servers raise once the client is gone
                task.result()

    async def _read(self) -> None:
        """Read what the client has seen, until it closes the socket."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            seen = _number_seen(message.get("text"))
            if seen is None:
                await self._socket.close(_BAD_MESSAGE, 'Expected {"seen": number}.')
                return
            self._seen = max(self._seen, min(seen, self._sent))
            self._has_room.set()

    async def _write(self, feed: str, after: int) -> None:
        resumes = feed == self._feed.id and 0 <= after <= self._feed.last
        await self._send({"session": self._row(), "feed": self._feed.id, "resumed": resumes})
        self._row_due = time.monotonic() + _ROW_EVERY_S
        if resumes:
            self._sent = self._seen = after
        else:
            await self._send_beginning()
        while True:
            await self._room()
            await self._send_row_if_due()
            entries, missed = self._feed.after(self._sent, _BATCH)
            if entries:
                await self._send_entries(_within(entries, _BATCH_CHARACTERS), missed)
            elif self._feed.ending is not None:
                await self._send({"ended": self._feed.ending})
                await self._socket.close()
                return
            else:
                await self._wait()

    async def _send_beginning(self) -> None:
        """Send what came of the current episode before: from the record, and from there on from the feed."""
        episode = self._row()["episodes"]
        kept, _ = self._feed.after(0, self._feed.last)
        own = [entry for entry in kept if entry.episode == episode]
        self._sent = self._seen = self._feed.last - len(own)
        recorded = await self._read_record(own[0][:2] if own else None)
        came, _ = self._feed.after(self._sent, 1)
        await self._send_lines([entry for entry in recorded if not came or entry[:2] < came[0][:2]], 0)

    async def _read_record(self, before: tuple[int, int] | None) -> list[FeedEntry]:
        """Return the entries that are on record, the last ones of very many; not soon after the time before."""
        await asyncio.sleep(max(0.0, self._record_due - time.monotonic()))
        async with self._followers.reading:
            recorded = await self._recorded(before)
        self._record_due = time.monotonic() + _RECORD_EVERY_S
        return _within(recorded[::-1], self._followers.most_of_record)[::-1]

    async def _send_entries(self, entries: list[FeedEntry], missed: int) -> None:
        """Send entries of the feed, and before them those that the feed has no more, as far as they are on record."""
        self._sent += missed + len(entries)
        if missed:
            recorded = await self._read_record(entries[0][:2])
            # A client that came back has entries of which only the number is known.
            found = [entry for entry in recorded if self._position < entry[:2]][-missed:]
            missed = max(0, missed - len(found))
            entries = [*found, *entries]
        self._unseen.append((self._sent, await self._send_lines(entries, missed)))

    async def _send_lines(self, entries: list[FeedEntry], missed: int) -> int:
        """Send entries, in several messages if they are many. Return the number of characters."""
        size = 0
        write = partial(_sendable, secrets=self._secrets())
        while entries:
            some = _within(entries, _BATCH_CHARACTERS)
            entries = entries[len(some) :]
            self._position = some[-1][:2]
            content = self._feed.written(some, write)
            await self._socket.send_text(f'{{"missed":{missed},"entries":[{content}]}}')
            missed = 0
            size += len(content)
            await asyncio.sleep(self._followers.pause_s(len(content)))
        return size

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(to_json(message, inf_nan_mode="null").decode())

    async def _room(self) -> None:
        """Wait until the client has seen most of what was sent.

        Raises:
            WebSocketDisconnect: It has seen nothing for long.
        """
        while self._is_behind():
            self._has_room.clear()
            try:
                async with asyncio.timeout(_SEEN_WITHIN_S):
                    await self._has_room.wait()
            except TimeoutError:
                await self._socket.close(
                    _TRY_AGAIN_LATER, "Expected an answer to the entries that were sent, got none."
                )
                raise WebSocketDisconnect(_TRY_AGAIN_LATER) from None

    def _is_behind(self) -> bool:
        while self._unseen and self._unseen[0][0] <= self._seen:
            self._unseen.popleft()
        on_their_way = sum(size for _, size in self._unseen)
        return self._sent - self._seen >= _MOST_UNSEEN or on_their_way > _MOST_UNSEEN_CHARACTERS

    async def _send_row_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._row_due:
            self._row_due = now + _ROW_EVERY_S
            await self._send({"session": self._row()})

    async def _wait(self) -> None:
        """Wait for the next entry, or until the row is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._row_due - time.monotonic())):
                await self._feed.wait(self._sent)


def _within(entries: list[FeedEntry], most: int) -> list[FeedEntry]:
    """Return the first entries that have so many characters together, at least one."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.text)
        if size > most and count:
            return entries[:count]
    return entries


def _sendable(entry: FeedEntry, secrets: Sequence[str]) -> str:
    """Return an entry as JSON, without secrets, and with ``null`` for NaN and infinity."""
    line = encoded((f"{entry.text}\n",), secrets)
    if any(name in line for name in _NO_NUMBERS):
        line = to_json(from_json(line), inf_nan_mode="null")
    return line.decode().rstrip()


def _number_seen(text: str | None) -> int | None:
    """Return the number in a client's message; ``None`` for a message of another form, or without text."""
    try:
        seen = from_json(text or "")["seen"]
    except (ValueError, TypeError, KeyError):
        return None
    return seen if isinstance(seen, int) else None
