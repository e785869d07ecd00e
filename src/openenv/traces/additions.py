"""Additions to a file of traces beside the records of servers: episodes, conversations and scores."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import count
from typing import Any

from pydantic_core import from_json, to_json

from openenv.core.documents import read_arguments
from openenv.core.env_server.traces.database import TraceConnection
from openenv.core.env_server.traces.encoding import encoded, without_blobs
from openenv.core.env_server.traces.omission import ACTION, MESSAGES, TOKENS, columns_of, without_fields
from openenv.core.env_server.traces.store import (
    EncodedPart,
    EpisodeRow,
    add_run,
    end_run,
    name_of,
    number_in,
    write_parts,
)
from openenv.core.env_server.traces.summaries import Rollout, stored_totals
from openenv.core.plain_values import plain_value
from openenv.core.wire.redaction import secret_values
from openenv.core.wire.results import component_totals
from openenv.traces.episodes import CONVERSATION, RUNNING, SCORE, STEP, Conversation, Entry, Episode, Score

_TOKENS = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "token_texts")
_WRITE_CONVERSATION = """
INSERT INTO conversation (episode_id, at, model, content, rollout_group, reward, cut_by)
SELECT :episode_id, :at, :model, :content, :rollout_group, CAST(:reward AS DOUBLE PRECISION), :cut_by
WHERE NOT EXISTS (SELECT 1 FROM conversation WHERE episode_id = :episode_id AND content = :content)
"""
# Size of the entries of a part, in characters.
_PART_SIZE = 1024 * 1024
# Fields of a conversation that are its content.
_CONTENT = tuple(each.name for each in fields(Conversation) if each.name != "episode_id")


class AddedEpisodes:
    """Episodes that are added to a file, as a run."""

    def __init__(self, connection: TraceConnection, leave_out: Sequence[str]) -> None:
        self._connection = connection
        self._leave_out = leave_out
        self._run = add_run(connection)
        self._numbers = count(1)

    def add(self, episode: Episode, entries: Iterable[Entry], conversations: Iterable[Conversation]) -> str:
        """Add an episode and return its id; it is there whole or not at all."""
        row = _row_of(next(self._numbers), episode)
        for column in columns_of(self._leave_out):
            setattr(row, column, None)
        secrets = secret_values()
        with self._connection.changing():
            write_parts(self._connection, self._run, [EncodedPart(row, 0, b"", 0)])
            for number, lines in enumerate(_portions(_counted(entries, row, self._leave_out)), 1):
                content, blobs = without_blobs(encoded(lines, secrets, self._leave_out))
                write_parts(self._connection, self._run, [EncodedPart(row, number, content, len(lines), blobs)])
            _write_conversations(self._connection, conversations, secrets, self._leave_out)
        return name_of(number_in(self._run.number, row.number))

    def close(self) -> None:
        """Record that nothing more is added."""
        end_run(self._connection, self._run)


def write_conversations(
    connection: TraceConnection, conversations: Iterable[Conversation], leave_out: Sequence[str] = ()
) -> None:
    """Write conversations, all or none, without the secrets that this process knows; equal ones are written once."""
    with connection.changing():
        _write_conversations(connection, conversations, secret_values(), leave_out)


def conversation_of(episode_id: str, content: bytes) -> Conversation:
    """Return a conversation as it is stored."""
    return CONVERSATION.validate_python({**from_json(content), "episode_id": episode_id})


def write_score(connection: TraceConnection, episode: int, score: Score) -> None:
    """Write the score of an episode, which replaces an earlier score of the same name."""
    fields = {"reward": score.reward, "rewards": score.rewards, "components": score.components}
    connection.execute(
        "INSERT INTO score (episode, name, at, content) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (episode, name) DO UPDATE SET at = excluded.at, content = excluded.content",
        (episode, score.name, score.at, to_json(fields)),
    )


def score_of(name: str, at: float, content: bytes) -> Score:
    """Return a score as it is stored."""
    return SCORE.validate_python({**from_json(content), "name": name, "at": at})


def _without_fields(known: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a conversation without those that are left out, whose paths are among ``extra``."""
    known = from_json(to_json(known, inf_nan_mode="constants", fallback=plain_value))
    found = without_fields(known, [path for path in paths if path.partition(".")[0] == MESSAGES])
    if TOKENS in paths:
        tokens = [known.pop(name) for name in _TOKENS]
        found += [TOKENS] if any(tokens) else []
    calls = [call for message in known.get(MESSAGES, ()) for call in message.get("tool_calls") or ()]
    found += [path for call in calls for path in _remove_arguments(call["function"], paths)]
    if not found:
        return known
    known.pop("token_texts", None)  # in them is what the messages had
    return {**known, "extra": {**known["extra"], "left_out": list(dict.fromkeys(found))}}


def _remove_arguments(function: dict[str, Any], paths: Sequence[str]) -> list[str]:
    """Remove fields of the action that a tool call is from the call's arguments, and return their paths."""
    paths = [path for path in paths if path.partition(".")[0] == ACTION]
    written = function["arguments"]
    given = read_arguments(written)
    if not isinstance(given, dict):  # fields can't be found in what a model wrote there
        function["arguments"] = "" if paths else written
        return paths
    # An action that calls a tool has its arguments below its name.
    found = without_fields({ACTION: {"arguments": given}}, paths) + without_fields({ACTION: given}, paths)
    if found:
        function["arguments"] = to_json(given).decode() if isinstance(written, str) else given
    return found


def _write_conversations(
    connection: TraceConnection,
    conversations: Iterable[Conversation],
    secrets: Sequence[str],
    leave_out: Sequence[str],
) -> None:
    for conversation in conversations:
        known = {name: getattr(conversation, name) for name in _CONTENT}  # asdict would copy each token
        if leave_out:
            known = _without_fields(known, leave_out)
        content = {name: value for name, value in known.items() if value not in (None, (), [], {})}
        rollout = Rollout.of(conversation.extra)
        line = to_json(content, inf_nan_mode="constants", fallback=plain_value).decode()
        written = {
            "episode_id": conversation.episode_id,
            "at": time.time(),
            "model": conversation.model,
            "content": encoded([line + "\n"], secrets),
            "rollout_group": rollout.group,
            "reward": rollout.reward,
            "cut_by": rollout.cut_by,
        }
        connection.execute(_WRITE_CONVERSATION, written)


def _portions(entries: Iterable[Entry]) -> Iterator[list[str]]:
    """Divide the lines of entries into portions that parts hold."""
    lines: list[str] = []
    size = 0
    for entry in entries:
        lines.append(entry.line())
        size += len(lines[-1])
        if size >= _PART_SIZE:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _counted(entries: Iterable[Entry], row: EpisodeRow, leave_out: Sequence[str]) -> Iterator[Entry]:
    """Iterate over entries, and add up the components of their rewards in the row."""
    totals: dict[str, float] = {}
    for entry in entries:
        if entry.kind == STEP and not entry.failed and entry.components:
            totals = component_totals([totals, entry.components])
            row.components = stored_totals(totals, leave_out)
        yield entry


def _row_of(number: int, episode: Episode) -> EpisodeRow:
    return EpisodeRow(
        number=number,
        session=episode.session,
        transport=episode.transport,
        environment=episode.environment,
        version=episode.version,
        started_at=episode.started_at,
        episode_id=episode.episode_id,
        seed=episode.seed,
        split=episode.split,
        task_index=episode.index,
        steps=episode.steps,
        reward=episode.reward,
        ending=None if episode.ending == RUNNING else episode.ending,
        ended_at=episode.ended_at,
        error=episode.error,
        token_name=episode.token_name,
        label=episode.label,
        note=episode.note,
    )
