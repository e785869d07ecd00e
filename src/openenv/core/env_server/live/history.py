"""Entries of a session's episode from before it was followed, as far as the record of its requests has them.

A record in memory has the requests, and of answers the last one alone; a journal has both.
"""

from collections.abc import Iterator, Sequence

from pydantic_core import from_json, to_json

from openenv.core.env_server.history.entries import History, HistoryEntry
from openenv.core.env_server.resumption.resumable_session import ResumableSession
from openenv.core.env_server.sessions.following import FeedEntry
from openenv.core.env_server.traces.encoding import line_of
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.arrays import from_portable, nested
from openenv.core.wire.messages import MessageType

_RESET, _STEP, _MCP = MessageType.RESET.value, MessageType.STEP.value, MessageType.MCP.value
_MOST_ENTRIES = 1000
# JSON of an answer that is not on record.
_UNKNOWN = "null"


async def recorded_entries(resumable: ResumableSession) -> list[FeedEntry]:
    """Return the entries of the current episode that are on record, while the session carries out no request.

    Args:
        resumable: The session.
    """
    try:
        history = await resumable.record.history()
    except SessionLostError:
        return []
    requests, first_step = _current_episode(history)
    if any(recorded.request.type == _MCP for recorded in requests):
        return []  # a call of an agent may be a step or none, so that the others have no number
    played = [recorded for recorded in requests if recorded.request.type in (_RESET, _STEP)]
    return list(_numbered(played, first_step, resumable))[-_MOST_ENTRIES:]


def _current_episode(history: History) -> tuple[Sequence[HistoryEntry], int]:
    """Return the requests of the current episode that are on record, and the number of the step of the first one."""
    entries = history.entries
    for index in range(len(entries) - 1, -1, -1):
        if entries[index].request.type == _RESET and not entries[index].failed:
            return entries[index:], 0
    return entries, 1 if history.checkpoint is None else history.checkpoint.position.step_count + 1


def _numbered(played: Sequence[HistoryEntry], step: int, resumable: ResumableSession) -> Iterator[FeedEntry]:
    episode, last = resumable.session.episode.number, resumable.last_answer
    for recorded in played:
        request, _, failed = recorded
        answer = _answer(recorded)
        if answer == _UNKNOWN and last is not None and last.id == request.id:
            answer = nested(last.text)
        line = line_of(request.type, 0.0, 0.0, to_json(request.data), answer, failed=failed)
        yield FeedEntry.of_line(0, episode, max(step - 1, 0) if failed else step, None, line)
        step += not failed


def _answer(recorded: HistoryEntry) -> str:
    """Return the data of an answer, or of an error, as JSON."""
    if isinstance(recorded.answer, int):
        return _UNKNOWN
    if recorded.failed:
        return to_json(from_json(recorded.answer)["data"]).decode()
    return nested(from_portable(recorded.answer))
