"""v1 on one socket: many sessions, whose answers are sent as they become ready, several in one frame.

Requests that need no wait are answered at once; others wait for their turn in their session, see ``resumption/``.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from openenv.core.env_server.access.rate import Rate
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.resumption.registry import ResumableSessions
from openenv.core.env_server.resumption.resumable_session import Message, PendingRequest, ResumableSession
from openenv.core.env_server.websocket.connection import GOODBYES, Connection, Frame
from openenv.core.exceptions import (
    ProductionModeError,
    RequestError,
    ServerFailedError,
    SessionLostError,
    SessionNotFoundError,
)
from openenv.core.wire.messages import Answer, MessageType, Refusal, V1Request
from openenv.core.wire.v1 import decode_v1, encode_error_v1, frames_v1

logger = logging.getLogger(__name__)

# Types of requests that make a session known to the socket.
_ATTACH = MessageType.ATTACH.value
_OPENING = (MessageType.OPEN, _ATTACH)
# Types of requests that an agent may send.
_OF_AGENTS = (*_OPENING, MessageType.MCP, MessageType.CLOSE)
_NO_SESSION = "This socket holds no such session (any more): it was closed, idle for too long, or resumed elsewhere."


class V1Wire:
    """v1 on one socket.

    Args:
        registry: Opens and resumes sessions; the socket's sessions are abandoned when the socket closes.
        client: Address of the client, as in ``access.peer.peer_address``.
        rate: Rate limit on messages; ``None`` for no limit.
        for_agents_only: Whether sessions accept only messages of type ``mcp``, for production mode.
        columns: Whether the client reads answers for several sessions in one message.
        takes_arrays: Whether the client reads binary frames, which have arrays beside JSON.

    Attributes:
        client: As above.
        takes_arrays: As above.
        commits: Whether answers are recorded in a journal before they are sent.
    """

    def __init__(
        self,
        registry: ResumableSessions,
        client: str,
        rate: Rate | None = None,
        *,
        for_agents_only: bool = False,
        columns: bool = False,
        takes_arrays: bool = False,
    ) -> None:
        self.client: str | None = client
        self.takes_arrays = takes_arrays
        self.commits = registry.journal is not None
        self._for_agents_only = for_agents_only
        self._writes_columns = columns
        self._rate = rate
        self._registry = registry
        self._metrics = registry.metrics
        self._sessions: dict[str, ResumableSession] = {}
        # By session: the id of the request whose answer was repeated on this socket.
        self._repeated: dict[str, int] = {}
        # Sessions of which a close was exempt from the rate limit.
        self._closes: set[str] = set()
        self._lost: set[str] = set()
        self._connection: Connection[Message, Answer]

    def start(self, connection: Connection[Any, Any]) -> None:
        """See ``Wire``."""
        self._connection = connection

    @property
    def holds_session(self) -> bool:
        """See ``Wire``."""
        return bool(self._sessions)

    def decode(self, frame: str | None, max_bytes: int) -> Iterable[Message]:
        """See ``Wire``."""
        return decode_v1(frame, max_bytes, self._registry.actions)

    def frames(self, answers: list[Answer]) -> Iterable[str | bytes]:
        """See ``Wire``."""
        return frames_v1(answers, columns=self._writes_columns, arrays=self.takes_arrays)

    def length(self, answer: Answer) -> int:
        """See ``Wire``."""
        return len(answer.text)

    def submit(self, message: Message) -> Answer | None:
        """See ``Wire``."""
        if self._rate is not None:
            message = self._within_rate(message, self._rate)
        session = self._sessions.get(message.session or "")
        try:
            if session is None or self._for_agents_only or message.type == _ATTACH:
                return self._begin(message, session)
            return session.submit(message)
        except Exception:
            logger.exception("the server failed on a message of v1")
            if session is not None:  # its state is unknown
                session.end(Ending.FAILED)
            return self._error(ServerFailedError(), message.id, message.session)

    def server_error(self) -> Answer:
        """See ``Wire``."""
        return self._error(ServerFailedError(), None, None)

    async def commit(self, answers: list[Answer]) -> list[Answer]:
        """See ``Wire``. Answers of a session that another server has resumed meanwhile are replaced by errors."""
        assert self._registry.journal is not None
        self._lost.clear()
        try:
            await self._registry.journal.commit()
        except Exception:
            logger.exception("the journal failed; answers are sent without it")
        return self._without(answers, self._lost) if self._lost else answers

    def close(self, code: int | None) -> None:
        """See ``Wire``."""
        clean = code in GOODBYES
        if not clean:
            count = len(self._sessions)
            logger.info("a client went without a goodbye (close code %s); it held %d sessions", code, count)
        self._registry.abandon(list(self._sessions.values()), clean=clean)

    def begin(self, message: Message) -> PendingRequest:
        """See ``SessionConnection``."""
        return PendingRequest(self, message, partial(self._end, self._connection.begin()))

    @property
    def has_room(self) -> bool:
        """See ``SessionConnection``."""
        return self._connection.has_room

    async def room(self) -> None:
        """See ``SessionConnection``."""
        await self._connection.room()

    def left(self, session: ResumableSession) -> None:
        """See ``SessionConnection``."""
        self._sessions.pop(session.session.id, None)
        self._repeated.pop(session.session.id, None)
        self._closes.discard(session.session.id)

    def joined(self, session: ResumableSession) -> None:
        """See ``SessionConnection``."""
        self._sessions[session.session.id] = session

    def lost(self, session: ResumableSession, unanswered: list[int]) -> None:
        """See ``SessionConnection``."""
        session_id = session.session.id
        self._lost.add(session_id)  # for answers that wait for the journal's commit now
        errors = [self._lost_error(number, session_id) for number in unanswered]
        self._connection.replace_unsent(lambda answers: self._without(answers, {session_id}) + errors)

    def _within_rate(self, message: Message, rate: Rate) -> Message:
        """Return the message; above the rate limit, a refusal in its place."""
        error = rate.refusal()
        if error is None or self._costs_nothing(message):
            return message
        return Refusal(error, message.id, None if _opens(message) else message.session)

    def _costs_nothing(self, message: Message) -> bool:
        """Return whether a message above the rate limit is exempt: once a close, and once a repetition of each request.

        A client repeats a request after its socket was lost. On a refusal, the client would take a request that was
        carried out for one that was not. Further closes and repetitions on the same socket are refused.
        """
        session = self._sessions.get(message.session or "")
        if session is None or not isinstance(message, V1Request):
            return False
        if message.type == MessageType.CLOSE:
            is_first = message.session not in self._closes
            self._closes.add(message.session)
            return is_first
        is_repeated = message.id == session.last_id and self._repeated.get(message.session) != message.id
        if is_repeated:
            self._repeated[message.session] = message.id
        return is_repeated

    def _begin(self, message: Message, session: ResumableSession | None) -> Answer | None:
        """Carry out a message that names no session of this socket, that attaches one, or that comes in production."""
        if self._for_agents_only and isinstance(message, V1Request) and message.type not in _OF_AGENTS:
            message = Refusal(ProductionModeError(message.type), message.id, message.session)
        if isinstance(message, V1Request) and _opens(message):
            self._connection.spawn(self._open(message, self._connection.begin()))
            return None
        if session is not None:
            return session.submit(message)
        error = message.error if isinstance(message, Refusal) else SessionNotFoundError(message.session, _NO_SESSION)
        return self._error(error, message.id, message.session)

    async def _open(self, request: V1Request, frame: Frame) -> None:
        """Open or resume a session."""
        try:
            answer = await self._opened(request)
        except RequestError as error:
            answer = self._error(error, request.id, None)
        except Exception:  # the socket's other sessions must continue
            logger.exception("could not carry out a request of type %s", request.type)
            answer = self._error(ServerFailedError(), request.id, None)
        self._end(frame, answer)

    def _end(self, frame: Frame, answer: Answer | None) -> None:
        self._connection.end(frame)
        if answer is not None:
            self._connection.send_soon(answer)

    async def _opened(self, request: V1Request) -> Answer:
        if request.type == MessageType.OPEN:
            kind, session = MessageType.OPENED, await self._registry.open(request.data, self)
        else:
            session = await self._registry.attach(request.session, request.data, self)
            kind = MessageType.ATTACHED
        self._sessions[session.session.id] = session
        return Answer(kind, self._registry.terms(session), request.id, session.session.id)

    def _without(self, answers: list[Answer], sessions: set[str]) -> list[Answer]:
        """Replace each answer of a session that another server has resumed by an error."""
        return [
            self._lost_error(answer.id, answer.session) if answer.session in sessions else answer for answer in answers
        ]

    def _lost_error(self, number: int | None, session: str | None) -> Answer:
        return self._error(SessionLostError("another server has resumed it.", "elsewhere"), number, session)

    def _error(self, error: RequestError, request_id: int | None, session_id: str | None) -> Answer:
        self._metrics.errors[error.code] += 1
        return encode_error_v1(error, request_id, session_id)


def _opens(message: Message) -> bool:
    """Return whether a message opens or resumes a session, whose id its answer must not name before."""
    return isinstance(message, V1Request) and message.type in _OPENING
