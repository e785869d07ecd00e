"""Reader of a journal: reads histories in a thread, and answers queries that arrive together with one pass."""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pydantic_core import from_json

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.history.entries import (
    Checkpoint,
    Data,
    History,
    HistoryEntry,
    Position,
    answer_message,
)
from openenv.core.env_server.history.rows import JournalRow, acquire, find_session, run_of
from openenv.core.env_server.history.store import Connection, Store
from openenv.core.exceptions import AcquiredElsewhereError, JournalError, SessionLostError
from openenv.core.wire.messages import V1Request

logger = logging.getLogger(__name__)

QueryT = TypeVar("QueryT")
AnswerT = TypeVar("AnswerT")
Reading: TypeAlias = Callable[[Connection, Sequence[QueryT]], Sequence[AnswerT | Exception]]
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

    async def find(self, session: str | int) -> JournalRow | None:
        """Return a session by its id or number; see ``find_session``.

        Raises:
            JournalError: The journal can't be read.
        """
        return await self._ask(_find, session)

    async def read(self, row: JournalRow) -> History:
        """Return the history of a session.

        Raises:
            SessionLostError: Part of the session's history is not in the journal.
            JournalError: The journal can't be read.
        """
        return await self._ask(read_sessions, row)

    async def acquire(self, row: JournalRow, run: int) -> History:
        """Make a run the owner of a session, and return the history of the session.

        Raises:
            AcquiredElsewhereError: Another run has become the session's owner since it was found.
            SessionLostError: Part of the session's history is not in the journal.
            JournalError: The journal can't be read or written.
        """
        return await self._ask(_acquire, (row, run))

    async def _ask(self, read: "Reading[QueryT, AnswerT]", about: QueryT) -> AnswerT:
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
                queries = [one for one in wanted if one.read is read]
                found = read(connection, [one.about for one in queries])
                answers |= {id(one): answer for one, answer in zip(queries, found, strict=True)}
        return [answers[id(one)] for one in wanted]


def _unreachable(name: str, why: str) -> JournalError:
    return JournalError(f"The journal {name} can't be read: {why}", retry_after_s=RETRY_AFTER_S)


def _find(connection: Connection, sessions: Sequence[str | int]) -> list[JournalRow | None]:
    return [find_session(connection, session) for session in sessions]


def _acquire(
    connection: Connection, wanted: Sequence[tuple[JournalRow, int]]
) -> list[History | SessionLostError | AcquiredElsewhereError]:
    (run,) = {run for _, run in wanted}
    rows = acquire(connection, [row for row, _ in wanted], run)
    histories = iter(read_sessions(connection, [row for row in rows if row is not None]))
    return [AcquiredElsewhereError() if row is None else next(histories) for row in rows]


def read_sessions(connection: Connection, rows: Sequence[JournalRow]) -> list[History | SessionLostError]:
    """Read the histories of sessions, in one pass over the journal.

    Raises:
        ValueError: The journal is corrupt.
    """
    if not rows:
        return []
    with connection.reading():  # so that batches and rows are of the same moment
        lineages = [_lineage(connection, row) for row in rows]
        numbers = {row.number for lineage in lineages for row in lineage}
        first = min(row.batch for row in rows)
        notes = _read_notes(connection, numbers, first)
    return [_history(lineage, notes) for lineage in lineages]


def _lineage(connection: Connection, row: JournalRow) -> list[JournalRow]:
    """Return the ancestors in a session's history, oldest first, and the session itself."""
    lineage = [row]
    while lineage[0].number != row.start and lineage[0].parent is not None:
        before = find_session(connection, lineage[0].parent)
        if before is None:
            break
        lineage.insert(0, before)
    return lineage


_Note = tuple[int, str, Data, str, bool]


def _read_notes(connection: Connection, numbers: set[int], first: int) -> dict[int, list[_Note]]:
    notes: dict[int, list[_Note]] = defaultdict(list)
    runs = ", ".join(str(run) for run in sorted({run_of(number) for number in numbers}))
    batches = connection.stream(
        f"SELECT notes, answers FROM batch WHERE number >= :first AND run IN ({runs}) ORDER BY number",  # noqa: S608  # numbers
        {"first": first},
    )
    for written, answers in batches:
        text = answers if isinstance(answers, str) else answers.decode()
        begin = 0
        for number, request_id, kind, data, length in from_json(written):
            if number in numbers:
                notes[number].append((request_id, kind, data, text[begin : begin + abs(length)], length < 0))
            begin += abs(length)
    return notes


def _history(lineage: list[JournalRow], notes: dict[int, list[_Note]]) -> History | SessionLostError:
    row = lineage[-1]
    try:
        entries = list(_along(lineage, notes))
    except SessionLostError as error:
        return error
    checkpoint, answer = None, None
    if row.snapshot is not None and row.position is not None:
        *position, answer = json.loads(row.position)
        checkpoint = Checkpoint(Snapshot.from_bytes(row.snapshot), Position(*position))
    if row.first_id == 1 and row.start != row.number and not notes[row.number]:  # forked, and without a request since
        return History(entries, checkpoint)
    if entries:
        last = entries[-1]
        return History(entries, checkpoint, last.request.id, last.request.type, answer_message(last))
    last_id = row.since if row.snapshot is not None else row.first_id - 1
    return History(entries, checkpoint, last_id, last_answer=answer)


def _along(lineage: list[JournalRow], notes: dict[int, list[_Note]]) -> Iterator[HistoryEntry]:
    """Iterate over the requests to replay, along a lineage.

    Raises:
        SessionLostError: A request is missing.
    """
    row = lineage[-1]
    if lineage[0].number != row.start:
        raise SessionLostError("the session that it continues is not in the journal any more.")
    for position, part in enumerate(lineage):
        first_id = part.first_id
        if part.number == row.start and row.since > 0:
            first_id = row.since if row.snapshot is None else row.since + 1
        last_id = lineage[position + 1].parent_last_id if part is not row else None
        yield from _without_gaps(part, notes[part.number], first_id, last_id)


def _without_gaps(row: JournalRow, notes: list[_Note], first_id: int, last_id: int | None) -> Iterator[HistoryEntry]:
    expected = first_id
    for request_id, kind, data, answer, failed in notes:
        if request_id < first_id or (last_id is not None and request_id > last_id):
            continue
        if request_id != expected:
            break
        yield HistoryEntry(V1Request(kind, data or {}, request_id, row.id), answer, failed)
        expected += 1
    end = last_id
    if end is None:  # a history that starts with a reset has at least that request
        starts_with_reset = row.start == row.number and row.since == first_id
        end = notes[-1][0] if notes else first_id if starts_with_reset else first_id - 1
    if expected <= end:
        raise SessionLostError(
            f"request {expected} is not in the journal: what came so long ago was removed to keep the journal small, "
            "or could not be written."
        )
