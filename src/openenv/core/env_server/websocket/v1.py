"""WebSocket of v1: many sessions, whose answers are sent as they become ready.

Requests that need no wait are answered while the frame is read, without a task; others wait for their turn in their
session, see ``resumption/``. Answers that are ready together are sent in one frame.
"""

import asyncio
import logging
from collections.abc import Iterator

from pydantic_core import from_json
from starlette.types import Receive, Send

from openenv.core.env_server.access.rate import Rate
from openenv.core.env_server.resumption.registry import ResumableSessions
from openenv.core.env_server.resumption.resumable_session import ResumableSession
from openenv.core.exceptions import (
    ProductionModeError,
    RequestError,
    ServerFailedError,
    SessionLostError,
    SessionNotFoundError,
)
from openenv.core.wire.messages import Refusal, V1Request
from openenv.core.wire.v1 import decode_v1, encode_error_v1, encode_v1, frames_v1

logger = logging.getLogger(__name__)

# Requests of one frame that are answered before a flush and a yield to other tasks: the client reads these answers
# while the next ones are computed.
_REQUESTS_IN_A_ROW = 32
# Limit on the requests under way of one socket; at the limit, no further frame is processed.
_MOST_UNDER_WAY = 16_384
# Limit on the characters of unsent answers; above the limit, the socket's sessions wait.
_MOST_UNSENT = 1024 * 1024
# Close codes of a client that ends the connection on purpose, leaves the page, or got an answer above its limit; any
# other close may be unintended.
GOODBYES = (1000, 1001, 1009)
# Types of requests that an agent may send.
_OF_AGENTS = ("open", "attach", "mcp", "close")
_NO_SESSION = "This socket holds no such session (any more): it was closed, idle for too long, or taken up elsewhere."


class V1Socket:
    """Socket of v1.

    Args:
        registry: Opens and resumes sessions; the socket's sessions are abandoned when the socket closes.
        send: The socket's ASGI ``send``.
        max_message_bytes: Maximum length of a message, in bytes of UTF-8.
        client: Address of the client, as in ``access.peer.peer_address``.
        rate: Rate limit on messages; ``None`` for no limit.
        for_agents_only: Whether sessions accept only messages of type ``mcp``, for production mode.

    Attributes:
        client: As above.
    """

    def __init__(
        self,
        registry: ResumableSessions,
        send: Send,
        max_message_bytes: int,
        client: str | None = None,
        rate: Rate | None = None,
        *,
        for_agents_only: bool = False,
    ) -> None:
        self.client = client
        self._for_agents_only = for_agents_only
        self._rate = rate
        self._registry = registry
        self._metrics = registry.metrics
        self._send = send
        self._max_message_bytes = max_message_bytes
        self._sessions: dict[str, ResumableSession] = {}
        # By session: the id of the request whose answer was repeated on this socket.
        self._repeated: dict[str, int] = {}
        self._lost: set[str] = set()
        self._ready: list[str] = []
        self._unsent = 0
        self._sender = asyncio.Lock()
        self._little_unsent = asyncio.Event()
        self._little_unsent.set()
        self._client_gone = False
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: asyncio.TaskGroup

    async def serve(self, receive: Receive) -> None:
        """Answer requests until the client disconnects.

        Args:
            receive: The socket's ASGI ``receive``.
        """
        code: int | None = None
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    while (event := await receive())["type"] != "websocket.disconnect":
                        await self._room.wait()  # after receive(), which returns the disconnect
                        await self._take(event.get("text"))
                    code = event.get("code")
                finally:
                    self._gone()
                raise _ClientGoneError  # ends the tasks
        except* _ClientGoneError as gone:
            logger.debug("a client disconnected: %s", gone.exceptions)
        finally:
            clean = code in GOODBYES
            if not clean:
                count = len(self._sessions)
                logger.info("a client went without a goodbye (close code %s); it held %d sessions", code, count)
            self._registry.abandon(list(self._sessions.values()), clean=clean)

    def began(self) -> None:
        """Count a request as under way."""
        self._under_way += 1
        if self._under_way >= _MOST_UNDER_WAY:
            self._room.clear()

    def ended(self, message: str | None) -> None:
        """Count a request as ended, and queue its answer for the next flush; ``None`` if it is not for this socket."""
        self._under_way -= 1
        self._room.set()
        if message is None or self._client_gone:
            return
        self._ready.append(message)
        self._unsent += len(message)
        if self._unsent > _MOST_UNSENT:
            self._little_unsent.clear()
        if len(self._ready) == 1 and not self._sender.locked():
            self._tasks.create_task(self._flush())

    @property
    def has_room(self) -> bool:
        """Whether the unsent answers are within the limit."""
        return self._little_unsent.is_set()

    async def room(self) -> None:
        """Wait until the unsent answers are within the limit."""
        await self._little_unsent.wait()

    def left(self, session: ResumableSession) -> None:
        """Remove a session that has moved to another connection, or has ended."""
        self._sessions.pop(session.session.id, None)
        self._repeated.pop(session.session.id, None)

    def joined(self, session: ResumableSession) -> None:
        """Add a session that was forked from a session of this socket."""
        self._sessions[session.session.id] = session

    def lost(self, session: ResumableSession, unanswered: list[int]) -> None:
        """Send errors in place of all unsent answers of a session that another server has resumed."""
        session_id = session.session.id
        self._lost.add(session_id)  # for answers that wait for the journal's commit now
        self._ready = self._without(self._ready, {session_id})
        self._ready += [self._lost_error(number, session_id) for number in unanswered]
        if self._ready and not self._client_gone and not self._sender.locked():
            self._tasks.create_task(self._flush())

    async def _take(self, frame: str | None) -> None:
        """Answer or start the requests of one frame."""
        self._metrics.frames_in += 1
        self._metrics.characters_in += len(frame or "")
        try:
            messages = decode_v1(frame, self._max_message_bytes)
        except RequestError as error:
            messages = iter((Refusal(error, None, None),))
        if self._rate is not None:
            messages = self._within_rate(messages, self._rate)
        for count, message in enumerate(messages, 1):
            self._begin(message)
            if count % _REQUESTS_IN_A_ROW == 0:
                await self._flush_amid_frame()
                await asyncio.sleep(0)
        await self._flush()

    def _within_rate(self, messages: Iterator[V1Request | Refusal], rate: Rate) -> Iterator[V1Request | Refusal]:
        """Yield the messages, with a refusal in place of each message above the rate limit."""
        for message in messages:
            error = rate.refusal()
            if error is None or self._costs_nothing(message):
                yield message
            else:
                yield Refusal(error, message.id, None if _names_no_session(message) else message.session)

    def _costs_nothing(self, message: V1Request | Refusal) -> bool:
        """Return whether a message is exempt from the rate limit: a close, or the first repetition of a request here.

        A client repeats a request after its socket was lost. On a refusal, the client would take a request that was
        carried out for one that was not. A second repetition on the same socket counts.
        """
        session = self._sessions.get(message.session or "")
        if session is None or not isinstance(message, V1Request):
            return False
        if message.type == "close":
            return True
        asks_again = message.id == session.last_id and self._repeated.get(message.session) != message.id
        if asks_again:
            self._repeated[message.session] = message.id
        return asks_again

    def _begin(self, message: V1Request | Refusal) -> None:
        session = self._sessions.get(message.session or "")
        if self._for_agents_only and isinstance(message, V1Request) and message.type not in _OF_AGENTS:
            message = Refusal(ProductionModeError(message.type), message.id, message.session)
        if isinstance(message, Refusal) and session is None:
            self._ready.append(self._error(message.error, message.id, message.session))
        elif isinstance(message, V1Request) and message.type in ("open", "attach"):
            self.began()
            self._tasks.create_task(self._open(message))
        elif session is None:
            assert isinstance(message, V1Request)
            error = SessionNotFoundError(message.session, _NO_SESSION)
            self._ready.append(self._error(error, message.id, message.session))
        else:
            answer = session.submit(message)
            if answer is not None:
                self._ready.append(answer)

    async def _open(self, request: V1Request) -> None:
        """Open or resume a session."""
        try:
            if request.type == "open":
                session = await self._registry.open(request.data, self)
            else:
                session = await self._registry.attach(request.session, request.data, self)
        except RequestError as error:
            self.ended(self._error(error, request.id, None))
            return
        except Exception:  # the socket's other sessions must continue
            logger.exception("could not carry out a request of type %s", request.type)
            self.ended(self._error(ServerFailedError(), request.id, None))
            return
        self._sessions[session.session.id] = session
        kind = "opened" if request.type == "open" else "attached"
        self.ended(encode_v1(kind, self._registry.terms(session), request.id, session.session.id))

    async def _flush(self) -> None:
        """Send the answers that are ready, and those that become ready meanwhile, after a flush under way.

        A client that does not read blocks the flush, and with it the reading of further requests.
        """
        async with self._sender:
            while self._ready and not self._client_gone:
                ready, self._ready, self._unsent = self._ready, [], 0
                self._little_unsent.set()
                self._lost.clear()
                await self._registry.put_on_record()
                if self._lost:
                    ready = self._without(ready, self._lost)
                for frame in frames_v1(ready):
                    await self._send_frame(frame)

    def _without(self, answers: list[str], sessions: set[str]) -> list[str]:
        """Replace each answer of a session that another server has resumed by an error."""
        named = [from_json(answer) for answer in answers]
        return [
            self._lost_error(name["id"], name["session"]) if name.get("session") in sessions else answer
            for name, answer in zip(named, answers, strict=True)
        ]

    def _lost_error(self, number: int | None, session: str) -> str:
        return self._error(SessionLostError("another server has taken it up.", "elsewhere"), number, session)

    def _error(self, error: RequestError, request_id: int | None, session_id: str | None) -> str:
        self._metrics.errors[error.code] += 1
        return encode_error_v1(error, request_id, session_id)

    async def _flush_amid_frame(self) -> None:
        """Send the answers that are ready; during a journal commit, requests of the frame go on up to the limit."""
        if not self._registry.keeps_journal or sum(map(len, self._ready)) > _MOST_UNSENT:
            await self._flush()
        elif not self._sender.locked():
            self._tasks.create_task(self._flush())

    async def _send_frame(self, frame: str) -> None:
        self._metrics.frames_out += 1
        self._metrics.characters_out += len(frame)
        try:
            await self._send({"type": "websocket.send", "text": frame})
        except (OSError, RuntimeError) as error:  # RuntimeError: uvicorn has closed the socket itself
            self._gone()
            raise _ClientGoneError from error

    def _gone(self) -> None:
        self._client_gone = True
        self._little_unsent.set()


def _names_no_session(message: V1Request | Refusal) -> bool:
    """Return whether the answer must not name a session, since the socket does not have the session yet."""
    return isinstance(message, V1Request) and message.type in ("open", "attach")


class _ClientGoneError(Exception):
    """Disconnect of the client, which ends the socket's tasks."""
