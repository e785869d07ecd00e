"""Both ends of a socket that is none, for tests that say what happens between two turns of the event loop."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from starlette.types import Message

from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.websocket.endpoint import WebSocketTransport

_PATIENCE_S = 60.0


class FakeSocket:
    """A socket of one server's sessions, in their own event loop. Leaving it ends it as a client does that goes.

    Attributes:
        frames: What the server has sent.
        reads: Cleared by a client that reads no more.
    """

    def __init__(self, sessions: SessionManager, *subprotocols: str, max_message_bytes: int = 100_000) -> None:
        self.frames: list[str] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._scope = {"query_string": b"", "subprotocols": list(subprotocols)}
        self._transport = WebSocketTransport(sessions, ClientLimits(sessions.limits, None), max_message_bytes)
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._events.put_nowait({"type": "websocket.connect"})
        self._gone: Exception | None = None
        self._sending = 0

    @property
    def unread(self) -> int:
        """Frames that the server has not taken."""
        return self._events.qsize()

    @property
    def is_stuck(self) -> bool:
        """Whether the server is sending to a client that does not read."""
        return self._sending > 0 and not self.reads.is_set()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in the frames."""
        parsed = [json.loads(frame) for frame in self.frames]
        return [message for frame in parsed for message in (frame if isinstance(frame, list) else [frame])]

    def put(self, frame: Any) -> None:
        """Send text as it is, anything else as JSON."""
        text = frame if isinstance(frame, str) else json.dumps(frame)
        self._events.put_nowait({"type": "websocket.receive", "text": text})

    def go(self, error: Exception | None = None) -> None:
        """Disconnect; what the server sends afterwards raises the error."""
        self._gone = error or OSError("the client has gone")
        self.reads.set()
        self._events.put_nowait({"type": "websocket.disconnect"})

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that the loop is going to bring about."""
        async with asyncio.timeout(_PATIENCE_S):
            while not condition():  # noqa: ASYNC110  # there is no event for most of what is waited for
                await asyncio.sleep(0)

    async def answers(self, number: int) -> list[dict[str, Any]]:
        """Wait until there are so many messages in all, and return them."""
        seen = 0

        def arrived() -> bool:
            nonlocal seen
            if len(self.frames) == seen:
                return False
            seen = len(self.frames)
            return len(self.messages) >= number

        await self.until(arrived)
        return self.messages

    async def settle(self) -> None:
        """Let the loop turn until everything that needs no outside help has happened."""
        for _ in range(2_000):
            await asyncio.sleep(0)

    async def ended(self) -> None:
        """Wait until the server has let go, and fail with what it raised."""
        async with asyncio.timeout(_PATIENCE_S):
            await self._served

    async def _receive(self) -> Message:
        return await self._events.get()

    async def _send(self, message: Message) -> None:
        self._sending += 1
        await self.reads.wait()
        self._sending -= 1
        if self._gone is not None:
            raise self._gone
        if message["type"] == "websocket.send":
            self.frames.append(message["text"])

    async def __aenter__(self) -> Self:
        self._served: Awaitable[None] = asyncio.ensure_future(self._transport(self._scope, self._receive, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go()
        await self.ended()
