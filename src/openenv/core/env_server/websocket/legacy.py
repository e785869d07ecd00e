"""Wires of sockets with one session each, answered in order: the legacy wire, and what MCP over a socket shares."""

import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, Generic, TypeVar

from openenv.core.env_server.access.rate import Rate
from openenv.core.env_server.execution.runner import Started
from openenv.core.env_server.mcp.dialect import SessionMethods, answer_document
from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import ANSWER_TYPES, Session
from openenv.core.env_server.websocket.connection import GOODBYES, INTERNAL_ERROR, Connection, Frame
from openenv.core.exceptions import ProductionModeError, RequestError, ServerFailedError
from openenv.core.wire.arrays import WRITTEN, Written, nested
from openenv.core.wire.legacy import decode, encode, encode_error
from openenv.core.wire.messages import MessageType, Request

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT")

_CLOSE, _MCP = MessageType.CLOSE.value, MessageType.MCP.value


class SingleSessionWire(Generic[RequestT]):
    """Wire of a socket with one session.

    Args:
        sessions: Opens the session.
        client: Address of the client, as in ``access.peer.peer_address``.
        rate: Rate limit on messages; ``None`` for no limit.
        session_id: Id of the session to attach; ``None`` opens one.

    Attributes:
        commits: False: no answer has to be recorded.
        holds_session: Whether the client has used its session, by a request or by naming it; the socket closes with it.
    """

    commits: bool = False
    opens_as: Transport
    """Transport under which the session is counted."""

    def __init__(
        self,
        sessions: SessionManager,
        client: str,
        rate: Rate | None = None,
        session_id: str | None = None,
    ) -> None:
        self._sessions = sessions
        self._client = client
        self._rate = rate
        self._session_id = session_id
        self.holds_session = session_id is not None
        self._session: Session  # from the answer to ``open`` on
        self._is_open = False
        self._is_busy = True  # until the session is open, and while a request is under way
        self._ending: Ending | None = None  # why the server closes the socket
        self._queue: deque[tuple[RequestT | RequestError, Frame]] = deque()
        self._connection: Connection[RequestT | RequestError, str]

    def start(self, connection: Connection[Any, Any]) -> None:
        """See ``Wire``."""
        self._connection = connection
        connection.spawn(self._begin())

    def decode(self, frame: str | None, max_bytes: int) -> Iterable[RequestT | RequestError]:
        """See ``Wire``."""
        try:
            if self._rate is not None:
                self._rate.check()
            return (self._read(frame, max_bytes),)
        except RequestError as error:
            return (error,)

    def submit(self, message: RequestT | RequestError) -> Started[str | None]:
        """See ``Wire``."""
        self.holds_session = True
        if self._is_busy:
            self._queue.append((message, self._connection.begin()))
            return None
        try:
            answer = self._carry_out(message)
        except Exception as error:  # noqa: BLE001  # the client waits for an answer
            return self._fail(error)
        if answer is None or isinstance(answer, str):
            return answer
        self._is_busy = True
        return self._work(answer)

    def server_error(self) -> str:
        """See ``Wire``. The session ends, since its state is unknown."""
        self._close_socket(Ending.FAILED)
        return self._error_frame(ServerFailedError())

    def length(self, answer: str) -> int:
        """See ``Wire``."""
        return len(answer)

    async def commit(self, answers: list[str]) -> list[str]:
        """See ``Wire``."""
        return answers

    def frames(self, answers: list[str]) -> Iterable[str]:
        """See ``Wire``. An answer is a frame."""
        return answers

    def close(self, code: int | None) -> None:
        """See ``Wire``."""
        if not self._is_open:
            return
        session, is_clean = self._session, self._ending is Ending.CLOSED or code in GOODBYES
        level = logging.DEBUG if self._ending is not None or is_clean else logging.INFO
        logger.log(level, "a client disconnected (close code %s)", code, extra={"session": session.name})
        if self._session_id is not None and self._ending is not Ending.FAILED:
            self._sessions.detach(session, clean=is_clean)
        else:
            self._sessions.close(session, self._ending or Ending.DISCONNECTED)

    @staticmethod
    def _read(frame: str | None, max_bytes: int | None) -> RequestT:
        """Return the request of a frame.

        Raises:
            RequestError: The frame holds no valid request.
        """
        raise NotImplementedError

    def _carry_out(self, request: RequestT | RequestError) -> Started[str | None]:
        """Return the frame that answers a request, or a coroutine that returns it; ``None`` for no answer.

        Raises:
            RequestError: The request was refused, or the environment failed; also raised by the coroutine. An error in
                place of a request is raised.
        """
        raise NotImplementedError

    def _error_frame(self, error: RequestError) -> str:
        raise NotImplementedError

    async def _begin(self) -> None:
        """Open the session, and carry out the requests that arrive meanwhile."""
        await self._open()
        text = await self._work(None)
        if text is not None:
            await self._connection.send(text)

    async def _work(self, answer: Started[str | None]) -> str | None:
        """Finish a request, and carry out those that arrive meanwhile. Return the last answer."""
        message = frame = None
        while True:
            try:
                if message is not None:
                    answer = self._carry_out(message)
                text = answer if answer is None or isinstance(answer, str) else await answer
            except Exception as error:  # noqa: BLE001  # the client waits for an answer
                text = self._fail(error)
            if self._is_open and self._session.closed:
                self._close_socket(Ending.CLOSED)
            if frame is not None:
                self._connection.end(frame)
            if not self._queue or self._ending is not None:
                break
            await self._connection.send(text)
            message, frame = self._queue.popleft()
        self._is_busy = False
        return text

    async def _open(self) -> None:
        """Open the session. An error is the first and only frame."""
        try:
            self._session = await self._new_session()
            self._is_open = True
        except Exception as error:  # noqa: BLE001  # the client waits for an answer
            answer = self._fail(error)
            self._close_socket(Ending.CLOSED)
            await self._connection.send(answer)

    async def _new_session(self) -> Session:
        if self._session_id is not None:
            return self._sessions.attach(self._session_id)
        return await self._sessions.open(client=self._client, transport=self.opens_as)

    def _fail(self, error: Exception) -> str:
        """Return the frame for an error; an error of the server itself ends the session."""
        if not isinstance(error, RequestError):
            logger.error("the server failed on a request of a socket", exc_info=error)
            error = ServerFailedError()
            self._close_socket(Ending.FAILED)
        elif self._is_open and self._session.closed:
            self._close_socket(Ending.CLOSED)
        self._sessions.metrics.errors[error.code] += 1
        return self._error_frame(error)

    def _close_socket(self, ending: Ending) -> None:
        """Close the socket after the answers that are ready."""
        if self._ending is None:
            self._ending = ending
            self._connection.close_after_answers(*((INTERNAL_ERROR,) if ending is Ending.FAILED else ()))


class LegacyWire(SingleSessionWire[Request]):
    """Legacy wire, at ``/ws``.

    Args:
        for_agents_only: Whether only messages of type ``mcp`` are carried out, for production mode.

    The others are those of ``SingleSessionWire``.
    """

    opens_as = Transport.LEGACY
    _read = staticmethod(decode)

    def __init__(
        self,
        sessions: SessionManager,
        client: str,
        rate: Rate | None = None,
        session_id: str | None = None,
        *,
        for_agents_only: bool = False,
    ) -> None:
        super().__init__(sessions, client, rate, session_id)
        self._methods = SessionMethods(sessions)
        self._for_agents_only = for_agents_only

    def _carry_out(self, request: Request | RequestError) -> Started[str | None]:
        if isinstance(request, RequestError):
            raise request
        kind, data = request
        if kind == _CLOSE:
            self._close_socket(Ending.CLOSED)
            return None
        if self._for_agents_only and kind != _MCP:
            raise ProductionModeError(kind)
        answer = (
            answer_document(self._session, data, self._methods) if kind == _MCP else self._session.handle(kind, data)
        )
        if not isinstance(answer, WRITTEN):
            return _encoded(kind, answer)
        return encode(ANSWER_TYPES[kind], nested(answer))

    def _error_frame(self, error: RequestError) -> str:
        return encode_error(error)


async def _encoded(kind: str, answer: Coroutine[Any, Any, Written]) -> str:
    return encode(ANSWER_TYPES[kind], nested(await answer))
