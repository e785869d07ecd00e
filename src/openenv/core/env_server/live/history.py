"""Entries of a session's episode from before it was followed, as far as the record of its requests has them.

A record in memory has the requests, and of answers the last one alone; a journal has both.
"""

from collections.abc import Iterator, Sequence

from pydantic_core import from_json, to_json

from openenv.core.env_server.history.entries import History, HistoryEntry
from openenv.core.env_server.resumption.resumable_session import ResumableSession
from openenv.core.env_server.sessions.following import FeedEntry
from openenv.core.env_server.traces.encoding import line_of
from openenv.core.wire.arrays import from_portable, nested
from openenv.core.wire.messages import Answer, MessageType

_RESET, _STEP, _MCP = MessageType.RESET.value, MessageType.STEP.value, MessageType.MCP.value
_MOST_ENTRIES = 1000
# JSON of an answer that is not on record.
_UNKNOWN = "null"


async def recorded_entries(resumable: ResumableSession, before: tuple[int, int] | None) -> list[FeedEntry]:
    """Return the last entries of the current episode that are on record, while the session carries out no request.

    Args:
        resumable: The session.
        before: Episode and step before which the entries are; ``None`` for the last ones.

    Raises:
        SessionLostError: The entries are not on record.
        JournalError: The journal can't be read.
    """
    history = await resumable.record.history()
    requests, first_step = _current_episode(history)
    if any(recorded.request.type == _MCP for recorded in requests):
        return []  # a call of an agent may be a step or none, so that the others have no number
    played = [recorded for recorded in requests if recorded.request.type in (_RESET, _STEP)]
    episode, last = resumable.session.episode.number, resumable.last_answer
    wanted = [
        (step, recorded)
        for step, recorded in _numbered(played, first_step)
        if before is None or (episode, step) < before
    ]
    return [_entry(episode, step, recorded, last) for step, recorded in wanted[-_MOST_ENTRIES:]]


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


def _entry(episode: int, step: int, recorded: HistoryEntry, last: Answer | None) -> FeedEntry:
    request, _, failed = recorded
    answer = _answer(recorded)
    # A fork's record has requests of the other session, whose ids are of that session.
    if answer == _UNKNOWN and last is not None and (last.session, last.id) == (request.session, request.id):
        answer = nested(last.text)
    line = line_of(request.type, 0.0, 0.0, to_json(request.data), answer, failed=failed)
    return FeedEntry.of_line(0, episode, step, None, line)


def _answer(recorded: HistoryEntry) -> str:
    """Return the data of an answer, or of an error, as JSON."""
    if isinstance(recorded.answer, int):
        return _UNKNOWN
    if recorded.failed:
        return to_json(from_json(recorded.answer)["data"]).decode()
    return nested(from_portable(recorded.answer))
