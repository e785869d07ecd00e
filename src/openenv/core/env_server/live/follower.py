"""Follower of a session: a socket on which the session's entries are sent as they come.

The server sends JSON objects, each with some of these fields:

- ``session``: the session's row of the table, first of all and then every two seconds;
- ``feed`` and ``resumed``, with the first row: the id of the feed, and whether it goes on behind ``after``;
- ``entries``, and ``missed``: how many entries before these are not on record any more;
- ``ended``: why there is nothing more to follow.

The client answers entries with ``{"seen": number}``, the number of the last one, and never has much more than
``_MOST_UNSEEN`` entries on their way. A client that falls behind reads the others from the session's feed later, and
beyond the feed's limits from the record of the session's requests.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic_core import from_json, to_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from openenv.core.env_server.sessions.following import FeedEntry, SessionFeed
from openenv.core.env_server.traces.encoding import encoded

_MOST_UNSEEN = 512
_BATCH = 256
# Between two messages with entries: what comes meanwhile is sent together, for a page that is drawn 60 times a second.
_PAUSE_S = 1 / 70
_ROW_EVERY_S = 2.0
_BAD_MESSAGE = 1003
# How JSON names numbers that it has no form for, where environments send them.
_NO_NUMBERS = (b"NaN", b"Infinity")


class Follower:
    """Follower of one session on one socket.

    Args:
        socket: The accepted socket.
        feed: The session's feed.
        row: Returns the session's row of the table.
        recorded: Returns the entries of the current episode that are on record, before an episode's step if one is
            named.
        secrets: Returns the secrets that are left out of what is sent, longest first.
    """

    def __init__(
        self,
        socket: WebSocket,
        feed: SessionFeed,
        row: Callable[[], dict[str, Any]],
        recorded: Callable[[tuple[int, int] | None], Awaitable[list[FeedEntry]]],
        secrets: Callable[[], Sequence[str]],
    ) -> None:
        self._socket = socket
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
                await self._send_entries(entries, missed)
                await asyncio.sleep(_PAUSE_S)
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
        recorded = await self._recorded(own[0][:2] if own else None)
        came, _ = self._feed.after(self._sent, 1)
        await self._send_lines([entry for entry in recorded if not came or entry[:2] < came[0][:2]], 0)

    async def _send_entries(self, entries: list[FeedEntry], missed: int) -> None:
        """Send entries of the feed, and before them those that the feed has no more, as far as they are on record."""
        self._sent += missed + len(entries)
        if missed:
            recorded = await self._recorded(entries[0][:2])
            # A client that came back has entries of which only the number is known.
            found = [entry for entry in recorded if self._position < entry[:2]][-missed:]
            missed = max(0, missed - len(found))
            entries = [*found, *entries]
        await self._send_lines(entries, missed)

    async def _send_lines(self, entries: list[FeedEntry], missed: int) -> None:
        if entries:
            self._position = entries[-1][:2]
            content = _sendable(entries, self._secrets())
            await self._socket.send_text(f'{{"missed":{missed},"entries":[{content}]}}')

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(to_json(message, inf_nan_mode="null").decode())

    async def _room(self) -> None:
        """Wait until the client has seen most of what was sent."""
        while self._sent - self._seen > _MOST_UNSEEN:
            self._has_room.clear()
            await self._has_room.wait()

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


def _sendable(entries: list[FeedEntry], secrets: Sequence[str]) -> str:
    """Return entries as the elements of a JSON list, without secrets, and with ``null`` for NaN and infinity."""
    content = encoded((f"{entry.text}\n" for entry in entries), secrets)
    lines = content.splitlines()
    if any(name in content for name in _NO_NUMBERS):
        lines = [to_json(from_json(line), inf_nan_mode="null") for line in lines]
    return b",".join(lines).decode()


def _number_seen(text: str | None) -> int | None:
    """Return the number in a client's message; ``None`` for a message of another form, or without text."""
    try:
        seen = from_json(text or "")["seen"]
    except (ValueError, TypeError, KeyError):
        return None
    return seen if isinstance(seen, int) else None
