"""The WebSocket transport at ``/ws``: one session per socket, JSON in text frames, answered in order.

It is an ASGI application of its own and not a FastAPI route, because each layer between the socket and the session
costs every step some microseconds.
"""

import logging
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope, Send

from openenv.core.env_server.protocol import decode, encode_error, encode_mcp_refusal, encode_outcome, encode_state
from openenv.core.env_server.sessions import Session, Sessions
from openenv.core.exceptions import InvalidRequestError, MessageTooLargeError, RequestError

logger = logging.getLogger(__name__)

_NORMAL_CLOSURE = 1000


class WebSocketTransport:
    """Serves sockets from the sessions of one server.

    Args:
        sessions: Where sessions are opened.
        max_message_bytes: Longest message that is read, in bytes of UTF-8.
    """

    def __init__(self, sessions: Sessions, max_message_bytes: int) -> None:
        self._sessions = sessions
        self._max_message_bytes = max_message_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket, from its handshake to its end."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        try:
            await self._serve(scope, receive, send)
            await send({"type": "websocket.close", "code": _NORMAL_CLOSURE})
        except _Disconnected:
            logger.debug("a client disconnected")
        except OSError as error:  # what ASGI servers raise on sending to a client that has gone
            logger.debug("a client went while it was being answered: %s", error)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a socket's messages. Capacity and factory errors are its first and only frame."""
        session_id = parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [None])[0]
        try:
            session = await self._sessions.open() if session_id is None else self._sessions.attach(session_id)
        except RequestError as error:
            await send({"type": "websocket.send", "text": encode_error(error)})
            return
        try:
            await self._answer_all(session, receive, send)
        finally:
            if session_id is None:
                await self._sessions.close(session)
            else:
                session.attached = False

    async def _answer_all(self, session: Session, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                raise _Disconnected
            try:
                answer = await self._answer(session, event)
            except RequestError as error:
                answer = encode_error(error)
            if answer is None:
                return
            await send({"type": "websocket.send", "text": answer})

    async def _answer(self, session: Session, event: Message) -> str | None:
        """Answer one frame; ``None`` where the client asked to close."""
        kind, data = decode(self._text(event))
        if kind == "step":
            return encode_outcome(await session.step(data))
        if kind == "reset":
            return encode_outcome(await session.reset(data))
        if kind == "state":
            return encode_state(await session.state())
        return encode_mcp_refusal(data) if kind == "mcp" else None

    def _text(self, event: Message) -> str:
        text: str | None = event.get("text")
        if text is None:
            raise InvalidRequestError("Expected a text frame with a JSON object, got a binary frame.")
        size = len(text)
        if size * 4 > self._max_message_bytes:  # only then can it be longer than allowed
            size = len(text.encode())
            if size > self._max_message_bytes:
                raise MessageTooLargeError(size, self._max_message_bytes)
        return text


class _Disconnected(Exception):  # noqa: N818  # an ending, not an error
    """The client has gone."""
