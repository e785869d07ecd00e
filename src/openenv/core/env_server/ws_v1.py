"""One WebSocket of v1: many sessions, whose requests are answered as they are ready and not in turn.

What can be answered at once is answered while the frame is read, without a task; anything else waits for its turn at
its seat, see ``seats.py``. Answers that are ready together leave in one frame.
"""

import asyncio
import logging
from collections.abc import Iterator

from pydantic_core import from_json
from starlette.types import Receive, Send

from openenv.core.env_server.protocol import (
    Refusal,
    V1Request,
    decode_v1,
    encode_v1,
    frames_v1,
)
from openenv.core.env_server.rate import Rate
from openenv.core.env_server.seat import Seat
from openenv.core.env_server.seats import Seats
from openenv.core.exceptions import (
    ProductionModeError,
    RequestError,
    ServerFailedError,
    SessionLostError,
    SessionNotFoundError,
)

logger = logging.getLogger(__name__)

# Requests of one frame that are answered before what is ready is sent and others get their turn: the client reads those
# answers while the next ones are made.
_REQUESTS_IN_A_ROW = 32
# Requests of one socket that may be under way; as long as there are more, no further frame is taken.
_MOST_UNDER_WAY = 16_384
# Characters of answers that may wait for a client to read them; as long as there are more, its sessions wait.
_MOST_UNSENT = 1024 * 1024
# With these a client ends the connection on purpose, its page is left, or it got an answer longer than it takes; any
# other end it may not have wanted.
GOODBYES = (1000, 1001, 1009)
# What an agent may ask for.
_OF_AGENTS = ("open", "attach", "mcp", "close")
_NO_SEAT = "This socket holds no such session (any more): it was closed, idle for too long, or taken up elsewhere."


class V1Socket:
    """Serves one socket.

    Args:
        seats: Where sessions are opened; those of this socket are given up when it ends.
        send: The socket's own.
        max_message_bytes: Longest message that is read, in bytes of UTF-8.
        client: Who is at its other end, as in ``clients.client_of``.
        rate: How many messages it may send; ``None`` for any number.

    Attributes:
        for_agents_only: Whether its sessions take messages of type ``mcp`` alone, since the server is in production
            mode.
    """

    def __init__(
        self, seats: Seats, send: Send, max_message_bytes: int, client: str | None = None, rate: Rate | None = None
    ) -> None:
        self.client = client
        self.for_agents_only = False
        self._rate = rate
        self._server = seats
        self._metrics = seats.metrics
        self._send = send
        self._max_message_bytes = max_message_bytes
        self._seats: dict[str, Seat] = {}
        # Which of its requests each session has been answered again on this socket.
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
        """Answer requests until the client goes.

        Args:
            receive: The socket's own.
        """
        code: int | None = None
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    while (event := await receive())["type"] != "websocket.disconnect":
                        await self._room.wait()  # not before receive(), which tells whether the client has gone
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
                count = len(self._seats)
                logger.info("a client went without a goodbye (close code %s); it held %d sessions", code, count)
            self._server.abandon(list(self._seats.values()), clean=clean)

    def began(self) -> None:
        """Learn that a request is under way."""
        self._under_way += 1
        if self._under_way >= _MOST_UNDER_WAY:
            self._room.clear()

    def ended(self, message: str | None) -> None:
        """Have an answer sent soon, with others that are ready by then; ``None`` where it is not for this socket."""
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
        """Whether no more is unsent than may be."""
        return self._little_unsent.is_set()

    async def room(self) -> None:
        """Wait while the client leaves too much unread."""
        await self._little_unsent.wait()

    def left(self, seat: Seat) -> None:
        """Let go of a session that answers elsewhere now, or has ended."""
        self._seats.pop(seat.session.id, None)
        self._repeated.pop(seat.session.id, None)

    def joined(self, seat: Seat) -> None:
        """Hold a session that was forked from one of this socket's."""
        self._seats[seat.session.id] = seat

    def lost(self, seat: Seat, unanswered: list[int]) -> None:
        """Tell the client that another server has a session, in the place of whatever has not left yet."""
        session = seat.session.id
        self._lost.add(session)  # for what is being put on record just now
        self._ready = self._without(self._ready, {session})
        self._ready += [self._lost_error(number, session) for number in unanswered]
        if self._ready and not self._client_gone and not self._sender.locked():
            self._tasks.create_task(self._flush())

    async def _take(self, frame: str | None) -> None:
        """Answer one frame's requests, or start on them."""
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
        """Put a refusal in the place of each message that is one too many."""
        for message in messages:
            error = rate.refusal()
            if error is None or self._costs_nothing(message):
                yield message
            else:
                yield Refusal(error, message.id, None if _names_no_session(message) else message.session)

    def _costs_nothing(self, message: V1Request | Refusal) -> bool:
        """Whether it is never one too many: it ends a session, or asks for an answer again for the first time here.

        A client asks again after it has lost its socket. Were that refused, the client would take what has happened for
        something that has not. To ask twice on one socket gains it nothing.
        """
        seat = self._seats.get(message.session or "")
        if seat is None or not isinstance(message, V1Request):
            return False
        if message.type == "close":
            return True
        asks_again = message.id == seat.last_id and self._repeated.get(message.session) != message.id
        if asks_again:
            self._repeated[message.session] = message.id
        return asks_again

    def _begin(self, message: V1Request | Refusal) -> None:
        seat = self._seats.get(message.session or "")
        if self.for_agents_only and isinstance(message, V1Request) and message.type not in _OF_AGENTS:
            message = Refusal(ProductionModeError(message.type), message.id, message.session)
        if isinstance(message, Refusal):
            self._refuse(seat, message)
        elif message.type in ("open", "attach"):
            self.began()
            self._tasks.create_task(self._open(message))
        elif seat is None:
            error = SessionNotFoundError(message.session, _NO_SEAT)
            self._ready.append(self._server.error(error, message.id, message.session))
        elif message.type in ("step", "reset") and seat.at_once:
            answered = seat.answer_now(message)
            if answered is not None:
                self._ready.append(answered)
        else:
            seat.queue(message)

    def _refuse(self, seat: Seat | None, refusal: Refusal) -> None:
        if seat is None:
            self._ready.append(self._server.error(refusal.error, refusal.id, refusal.session))
        elif seat.idle:
            self._ready.append(seat.refuse(refusal))
        else:
            seat.queue(refusal)

    async def _open(self, request: V1Request) -> None:
        """Open a session, or take one up."""
        try:
            if request.type == "open":
                seat = await self._server.open(request.data, self)
            else:
                seat = await self._server.attach(request.session, request.data, self)
        except RequestError as error:
            self.ended(self._server.error(error, request.id, None))
            return
        except Exception:  # the socket's other sessions are to go on
            logger.exception("could not carry out a request of type %s", request.type)
            self.ended(self._server.error(ServerFailedError(), request.id, None))
            return
        self._seats[seat.session.id] = seat
        kind = "opened" if request.type == "open" else "attached"
        self.ended(encode_v1(kind, seat.terms(self._max_message_bytes), request.id, seat.session.id))

    async def _flush(self) -> None:
        """Send what is ready, and what becomes ready meanwhile, after what is being sent already.

        A client that does not read holds this up, and with it the reading of further requests.
        """
        async with self._sender:
            while self._ready and not self._client_gone:
                ready, self._ready, self._unsent = self._ready, [], 0
                self._little_unsent.set()
                self._lost.clear()
                await self._server.put_on_record()
                if self._lost:
                    ready = self._without(ready, self._lost)
                for frame in frames_v1(ready):
                    await self._send_frame(frame)

    def _without(self, answers: list[str], sessions: set[str]) -> list[str]:
        """Put an error in the place of each answer of a session that another server has."""
        named = [from_json(answer) for answer in answers]
        return [
            self._lost_error(name["id"], name["session"]) if name.get("session") in sessions else answer
            for name, answer in zip(named, answers, strict=True)
        ]

    def _lost_error(self, number: int | None, session: str) -> str:
        return self._server.error(SessionLostError("another server has taken it up.", "elsewhere"), number, session)

    async def _flush_amid_frame(self) -> None:
        """Send what is ready; while that is put on record, more of the frame is answered, as far as there is room."""
        if not self._server.waits_for_record or sum(map(len, self._ready)) > _MOST_UNSENT:
            await self._flush()
        elif not self._sender.locked():
            self._tasks.create_task(self._flush())

    async def _send_frame(self, frame: str) -> None:
        self._metrics.frames_out += 1
        self._metrics.characters_out += len(frame)
        try:
            await self._send({"type": "websocket.send", "text": frame})
        except (OSError, RuntimeError) as error:  # the latter is uvicorn's, once it has closed the socket itself
            self._gone()
            raise _ClientGoneError from error

    def _gone(self) -> None:
        self._client_gone = True
        self._little_unsent.set()


def _names_no_session(message: V1Request | Refusal) -> bool:
    """Whether the answer must name none: the socket does not hold it yet."""
    return isinstance(message, V1Request) and message.type in ("open", "attach")


class _ClientGoneError(Exception):
    """Ends the tasks of a socket whose client has gone."""
