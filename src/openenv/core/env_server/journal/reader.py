"""Reads out of a journal while the event loop goes on: in a thread, and in one go what is asked for together."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from openenv.core.env_server.journal.claims import take_up
from openenv.core.env_server.journal.history import Row, Told, find_session, read_sessions
from openenv.core.env_server.journal.store import Connection, Store
from openenv.core.exceptions import JournalError, SessionLostError, TakenElsewhereError

logger = logging.getLogger(__name__)

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")
Reading: TypeAlias = Callable[[Connection, Sequence[AskedT]], Sequence[AnswerT | Exception]]
"""Answers several questions of a kind."""


# When to ask again for what could not be read.
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True)
class _Wanted:
    """A question.

    Attributes:
        read: Answers it, together with others that want the same of other things.
        about: What it is about.
        answer: Who waits for the answer.
    """

    read: Reading[Any, Any]
    about: Any
    answer: "asyncio.Future[Any]"


class Reader:
    """Reads what a store holds.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: list[_Wanted] = []
        self._reading: asyncio.Task[None] | None = None

    async def find(self, session: str | int) -> Row | None:
        """Find a session by its id or its number; see ``find_session``.

        Raises:
            JournalError: The journal can't be read.
        """
        return await self._ask(_find, session)

    async def tell(self, row: Row) -> Told:
        """Tell how to rebuild a session.

        Raises:
            SessionLostError: Some of what it did is not in the journal.
            JournalError: The journal can't be read.
        """
        return await self._ask(read_sessions, row)

    async def take_up(self, row: Row, run: int) -> Told:
        """Make a run the owner of a session, and tell how to rebuild it.

        Raises:
            TakenElsewhereError: Another run has become its owner since it was found.
            SessionLostError: Some of what it did is not in the journal.
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
        except Exception as error:  # whatever it is, those who wait for an answer must get one
            logger.exception("the journal %s can't be read", self._store.name)
            read = [_unreachable(self._store.name, f"{type(error).__name__}: {error}")] * len(wanted)
        for one, answer in zip(wanted, read, strict=True):
            if one.answer.done():  # whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    def _answers(self, wanted: list[_Wanted]) -> list[Any]:
        """Answer what is wanted, in this thread."""
        answers: dict[int, Any] = {}
        with self._store.connect() as connection:
            for read in {one.read for one in wanted}:
                asked = [one for one in wanted if one.read is read]
                told = read(connection, [one.about for one in asked])
                answers |= {id(one): answer for one, answer in zip(asked, told, strict=True)}
        return [answers[id(one)] for one in wanted]


def _unreachable(name: str, why: str) -> JournalError:
    return JournalError(f"The journal {name} can't be read: {why}", retry_after_s=_RETRY_AFTER_S)


def _find(connection: Connection, sessions: Sequence[str | int]) -> list[Row | None]:
    return [find_session(connection, session) for session in sessions]


def _take_up(
    connection: Connection, claims: Sequence[tuple[Row, int]]
) -> list[Told | SessionLostError | TakenElsewhereError]:
    (run,) = {run for _, run in claims}
    rows = take_up(connection, [row for row, _ in claims], run)
    told = iter(read_sessions(connection, [row for row in rows if row is not None]))
    return [TakenElsewhereError() if row is None else next(told) for row in rows]
