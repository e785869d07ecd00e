"""Entries of a session's episode from before it was followed, as far as the record of its requests has them.

A record in memory has the requests, and of answers the last one alone; a journal has both.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

from pydantic_core import from_json, to_json

from openenv.core.env_server.history.entries import History, HistoryEntry
from openenv.core.env_server.resumption.resumable_session import ResumableSession
from openenv.core.env_server.sessions.following import FeedEntry
from openenv.core.env_server.traces.encoding import line_of
from openenv.core.wire.arrays import from_portable, nested
from openenv.core.wire.messages import Answer, MessageType, V1Request

_RESET, _STEP, _MCP = MessageType.RESET.value, MessageType.STEP.value, MessageType.MCP.value
_MOST_ENTRIES = 1000
# Entries that are written before other sessions' requests are carried out.
_ENTRIES_A_TURN = 50
# JSON of an answer that is not on record.
_UNKNOWN = "null"


class _Position(NamedTuple):
    """Where a session stood at a moment when it carried out no request.

    Attributes:
        session: Id of the session.
        last_id: Id of its last request.
        last_answer: The answer to that request.
        episode: Number of its episode.
    """

    session: str
    last_id: int
    last_answer: Answer | None
    episode: int

    @classmethod
    async def of(cls, resumable: ResumableSession) -> Self:
        """Note where a session stands; ``ResumableSession.between_requests`` calls it."""
        session = resumable.session
        return cls(session.id, resumable.last_id, resumable.last_answer, session.episode.number)

    def precedes(self, request: V1Request) -> bool:
        """Return whether a request came later; a fork's record has requests of the session that it was forked from."""
        return request.session == self.session and request.id > self.last_id


async def recorded_entries(resumable: ResumableSession, before: tuple[int, int] | None) -> list[FeedEntry]:
    """Return the last entries of the current episode that are on record.

    The session waits only while its position is noted, and plays on while the record is read, however long that is.
    Where it was reset meanwhile, the episode's entries may be on record no more.

    Args:
        resumable: The session.
        before: Episode and step before which the entries are; ``None`` for the last ones.

    Raises:
        SessionNotFoundError: The session ends.
        SessionLostError: The entries are not on record.
        JournalError: The journal can't be read.
    """
    position = await resumable.between_requests(partial(_Position.of, resumable))
    history = await resumable.record.history()
    entries = [recorded for recorded in history.entries if not position.precedes(recorded.request)]
    requests, first_step = _current_episode(replace(history, entries=entries))
    if any(recorded.request.type == _MCP for recorded in requests):
        return []  # a call of an agent may be a step or none, so that the others have no number
    played = [recorded for recorded in requests if recorded.request.type in (_RESET, _STEP)]
    wanted = [
        (step, recorded)
        for step, recorded in _numbered(played, first_step)
        if before is None or (position.episode, step) < before
    ]
    return await _written(wanted[-_MOST_ENTRIES:], position)


async def _written(wanted: Sequence[tuple[int, HistoryEntry]], position: _Position) -> list[FeedEntry]:
    """Write entries, some at a time, so that other sessions do not wait for all of them."""
    written: list[FeedEntry] = []
    for start in range(0, len(wanted), _ENTRIES_A_TURN):
        some = wanted[start : start + _ENTRIES_A_TURN]
        written += [_entry(position, step, recorded) for step, recorded in some]
        await asyncio.sleep(0)
    return written


def _current_episode(history: History) -> tuple[Sequence[HistoryEntry], int]:
    """Return the requests of the current episode that are on record, and the number of the step of the first one."""
    entries = history.entries
    for index in range(len(entries) - 1, -1, -1):
        if entries[index].request.type == _RESET and not entries[index].failed:
            return entries[index:], 0
    return entries, 1 if history.checkpoint is None else history.checkpoint.position.step_count + 1


def _numbered(played: Sequence[HistoryEntry], step: int) -> Iterator[tuple[int, HistoryEntry]]:
    """Iterate over requests with the numbers of their steps; one that failed has that of the step before."""
    for recorded in played:
        yield (max(step - 1, 0) if recorded.failed else step), recorded
        step += not recorded.failed


def _entry(position: _Position, step: int, recorded: HistoryEntry) -> FeedEntry:
    request, _, failed = recorded
    answer, last = _answer(recorded), position.last_answer
    # A fork's record has requests of the other session, whose ids are of that session.
    if answer == _UNKNOWN and last is not None and (last.session, last.id) == (request.session, request.id):
        answer = nested(last.text)
    line = line_of(request.type, 0.0, 0.0, to_json(request.data), answer, failed=failed)
    return FeedEntry.of_line(0, position.episode, step, None, line)


def _answer(recorded: HistoryEntry) -> str:
    """Return the data of an answer, or of an error, as JSON."""
    if isinstance(recorded.answer, int):
        return _UNKNOWN
    if recorded.failed:
        return to_json(from_json(recorded.answer)["data"]).decode()
    return nested(from_portable(recorded.answer))
