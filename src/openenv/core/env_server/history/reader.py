"""Reader of a journal: reads in a thread, and answers queries that arrive together with one pass."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from openenv.core.env_server.history.history import Row, Told, find_session, read_sessions
from openenv.core.env_server.history.ownership import acquire
from openenv.core.env_server.history.store import Connection, Store
from openenv.core.exceptions import JournalError, SessionLostError, TakenElsewhereError

logger = logging.getLogger(__name__)

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")
Reading: TypeAlias = Callable[[Connection, Sequence[AskedT]], Sequence[AnswerT | Exception]]
"""Function that answers several queries of one kind."""


RETRY_AFTER_S = 1.0
"""Seconds after which a failed query can be tried again."""


@dataclass(frozen=True)
class _Wanted:
    """Query that waits for its answer.

    Attributes:
        read: Answers the query, together with other queries of its kind.
        about: Argument of the query.
        answer: Future of the answer.
    """

    read: Reading[Any, Any]
    about: Any
    answer: "asyncio.Future[Any]"


class Reader:
    """Reader of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: list[_Wanted] = []
        self._reading: asyncio.Task[None] | None = None

    async def find(self, session: str | int) -> Row | None:
        """Return a session by its id or number; see ``find_session``.

        Raises:
            JournalError: The journal can't be read.
        """
        return await self._ask(_find, session)

    async def tell(self, row: Row) -> Told:
        """Return what rebuilds a session.

        Raises:
            SessionLostError: Part of the session's history is not in the journal.
            JournalError: The journal can't be read.
        """
        return await self._ask(read_sessions, row)

    async def take_up(self, row: Row, run: int) -> Told:
        """Make a run the owner of a session, and return what rebuilds the session.

        Raises:
            TakenElsewhereError: Another run has become the session's owner since it was found.
            SessionLostError: Part of the session's history is not in the journal.
            JournalError: The journal can't be read or written.
        """
        return await self._ask(_take_up, (row, run))

    async def _ask(self, read: "Reading[AskedT, AnswerT]", about: AskedT) -> AnswerT:
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._wanted.append(_Wanted(read, about, answer))
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_wanted())
        return await answer

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                await self._read([one for one in wanted if not one.answer.done()])
        finally:
            self._reading = None

    async def _read(self, wanted: list[_Wanted]) -> None:
        try:
            read = await asyncio.to_thread(self._answers, wanted)
        except JournalError as error:
            read = [_unreachable(self._store.name, error.message)] * len(wanted)
        except Exception as error:  # every waiting query must get an answer
            logger.exception("the journal %s can't be read", self._store.name)
            read = [_unreachable(self._store.name, f"{type(error).__name__}: {error}")] * len(wanted)
        for one, answer in zip(wanted, read, strict=True):
            if one.answer.done():  # the query was cancelled
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    def _answers(self, wanted: list[_Wanted]) -> list[Any]:
        """Return the answers to queries; runs in a thread."""
        answers: dict[int, Any] = {}
        with self._store.connect() as connection:
            for read in {one.read for one in wanted}:
                asked = [one for one in wanted if one.read is read]
                told = read(connection, [one.about for one in asked])
                answers |= {id(one): answer for one, answer in zip(asked, told, strict=True)}
        return [answers[id(one)] for one in wanted]


def _unreachable(name: str, why: str) -> JournalError:
    return JournalError(f"The journal {name} can't be read: {why}", retry_after_s=RETRY_AFTER_S)


def _find(connection: Connection, sessions: Sequence[str | int]) -> list[Row | None]:
    return [find_session(connection, session) for session in sessions]


def _take_up(
    connection: Connection, claims: Sequence[tuple[Row, int]]
) -> list[Told | SessionLostError | TakenElsewhereError]:
    (run,) = {run for _, run in claims}
    rows = acquire(connection, [row for row, _ in claims], run)
    told = iter(read_sessions(connection, [row for row in rows if row is not None]))
    return [TakenElsewhereError() if row is None else next(told) for row in rows]
