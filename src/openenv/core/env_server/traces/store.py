"""What traces store: a row for each episode, and the parts of its entries, in a file or a database."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import NamedTuple

from openenv._extras import install_command
from openenv.core.env_server.traces.blobs import Blobs
from openenv.core.env_server.traces.database import TraceConnection, TraceDatabase, TraceStoreError
from openenv.core.env_server.traces.sqlite import FileDatabase
from openenv.core.env_server.traces.summaries import COMPONENT_COLUMNS
from openenv.core.exceptions import ConfigurationError

# Seconds since it last wrote after which a server that has not ended in order counts as dead.
_ALIVE_S = 60.0
_RUN_BITS = 32
# Episodes that one transaction removes, so that writers do not wait long.
_PIECE = 500


@dataclass(slots=True)
class EpisodeRow:
    """Row of an episode; the table has a column for each field but the last.

    Attributes:
        number: Number of the episode within its run.
        components: Sum of the scores of each component of the rewards, for the table ``component``.
    """

    number: int
    session: str
    transport: str
    environment: str
    version: str | None
    started_at: float
    episode_id: str | None = None
    seed: str | None = None
    split: str | None = None
    task_index: str | None = None
    parent: int | None = None
    parent_entries: int = 0
    steps: int = 0
    reward: float | None = None
    ending: str | None = None
    ended_at: float | None = None
    error: str | None = None
    token_name: str | None = None
    label: str | None = None
    note: str | None = None
    components: dict[str, float] = field(default_factory=dict)

    def copy(self) -> "EpisodeRow":
        """Return a copy, which does not change any more."""
        return replace(self, components=dict(self.components))

    def count_components(self, scores: Mapping[str, float]) -> None:
        """Add the scores of a step's components to their totals."""
        for name, score in scores.items():
            self.components[name] = self.components.get(name, 0.0) + score

    def fork_of(self, original: "EpisodeRow", entry_count: int) -> None:
        """Record that the episode continues another one, after so many of its entries."""
        self.parent, self.parent_entries = original.number, entry_count
        self.episode_id, self.seed = original.episode_id, original.seed
        self.split, self.task_index = original.split, original.task_index
        self.steps, self.reward = original.steps, original.reward
        self.components = dict(original.components)


COLUMNS = tuple(each.name for each in fields(EpisodeRow) if each.name != "components")
"""Columns of the table ``episode``, in the order of ``EpisodeRow``."""

_CHANGING = ("steps", "reward", "ending", "ended_at", "error")
_ON_CHANGE = f"ON CONFLICT (number) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _CHANGING)}"
_PART_COLUMNS = ("episode", "number", "entries", "content")
_ON_LATER_TOTAL = "ON CONFLICT (episode, name) DO UPDATE SET total = excluded.total"
_ON_REPETITION = "ON CONFLICT DO NOTHING"
_WRITE_BLOB = "INSERT INTO blob (hash, content) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"
_WRITE_BLOB_USE = "INSERT INTO blob_use (episode, hash) VALUES (?, ?) ON CONFLICT DO NOTHING"
_REMOVE_CONVERSATION = """
DELETE FROM conversation WHERE episode_id = (SELECT episode_id FROM episode WHERE number = ?)
"""
_BLOBS_OF = "SELECT hash FROM blob_use WHERE episode = ?"
_REMOVE_BLOB = "DELETE FROM blob WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = blob.hash)"


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Part of an episode's trace, ready to be written.

    Attributes:
        row: Row of the episode.
        number: Number of the part, from 1.
        content: The encoded entries; empty where only the row has changed.
        entries: Number of the entries.
        blobs: Long values that the entries name by their hashes.
    """

    row: EpisodeRow
    number: int
    content: bytes
    entries: int
    blobs: Blobs = field(default_factory=dict)


def database_at(location: str | Path) -> TraceDatabase:
    """Return the database for a path or an address, without opening it.

    Args:
        location: Path of a file, or address of a PostgreSQL database.

    Raises:
        ConfigurationError: ``location`` is neither, or it needs a package that is not installed.
    """
    if isinstance(location, Path) or "://" not in location:
        return FileDatabase(Path(location))
    scheme = location.partition("://")[0]
    if scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"Expected the traces to be the path of a file or postgresql://USER@HOST/DATABASE, got {scheme}://..."
        )
    try:
        from openenv.core.env_server.traces.postgres import PostgresDatabase  # an extra brings psycopg
    except ImportError as error:
        raise ConfigurationError(
            f"Traces in PostgreSQL need psycopg ({error}): {install_command('postgres')}"
        ) from error
    return PostgresDatabase(location)


class Run(NamedTuple):
    """Run of a process that records.

    Attributes:
        number: Its number, from which those of its episodes are made.
        started_at: When it started, which tells it from a run of this number in tables that were made again.
    """

    number: int
    started_at: float


def add_run(connection: TraceConnection) -> Run:
    """Add a run of a process that records."""
    with connection.changing():
        now = connection.now()
        added = connection.execute("INSERT INTO run (started_at, seen_at) VALUES (?, ?) RETURNING number", (now, now))
        return Run(int(added.fetchone()[0]), now)


def has_run(connection: TraceConnection, run: Run) -> bool:
    """Return whether a run is in the tables."""
    found = connection.execute("SELECT 1 FROM run WHERE number = ? AND started_at = ?", run)
    return found.fetchone() is not None


def end_run(connection: TraceConnection, run: Run) -> None:
    """Record that a run has ended in order."""
    with connection.changing():
        ended = "UPDATE run SET ended_at = ? WHERE number = ? AND started_at = ?"
        connection.execute(ended, (connection.now(), *run))


def alive_since(connection: TraceConnection) -> float:
    """Return the time since which a server has written that counts as alive; clocks of servers may differ from it."""
    return connection.now() - _ALIVE_S


def write(connection: TraceConnection, run: Run, parts: Sequence[EncodedPart], size: int = 0) -> None:
    """Write parts, all or none; without any, only that the run is alive.

    Args:
        connection: Connection to the database.
        run: The run that recorded the parts.
        parts: The parts.
        size: Size of their contents in bytes.

    Raises:
        NoRoomError: There is no room for them.
        TraceStoreError: The run is not in the tables any more, since they were made again.
    """
    with connection.changing(adds=size):
        alive = "UPDATE run SET seen_at = ? WHERE number = ? AND started_at = ?"
        seen = connection.execute(alive, (connection.now(), *run))
        if seen.rowcount != 1:
            raise TraceStoreError("its tables were made again meanwhile")
        write_parts(connection, run, parts)


def write_parts(connection: TraceConnection, run: Run, parts: Sequence[EncodedPart]) -> None:
    """Write parts within a transaction.

    Args:
        connection: Connection to the database.
        run: The run that recorded the parts.
        parts: The parts.
    """
    connection.insert("episode", COLUMNS, [_values(run.number, part.row) for part in parts], _ON_CHANGE)
    totals = {
        (number_in(run.number, part.row.number), name): total
        for part in parts
        for name, total in part.row.components.items()
    }
    if totals:
        rows = [(episode, _text(name), total) for (episode, name), total in totals.items()]
        connection.insert("component", COMPONENT_COLUMNS, rows, _ON_LATER_TOTAL)
    filled = [(number_in(run.number, part.row.number), part) for part in parts if part.content]
    contents = [(episode, part.number, part.entries, part.content) for episode, part in filled]
    connection.insert("part", _PART_COLUMNS, contents, _ON_REPETITION)
    blobs = {name: content for _, part in filled for name, content in part.blobs.items()}
    if blobs:
        # In one order, so that two writers can't wait for each other.
        connection.executemany(_WRITE_BLOB, sorted(blobs.items()))
        uses = sorted({(episode, name) for episode, part in filled for name in part.blobs})
        connection.executemany(_WRITE_BLOB_USE, uses)


def write_label(
    connection: TraceConnection,
    number: int,
    given: Sequence[str | None],
    replaces: Sequence[str | None] | None = None,
) -> None:
    """Write what a person calls an episode, and says of it: over anything, or over ``replaces`` alone."""
    query, values = "UPDATE episode SET label = ?, note = ? WHERE number = ?", [*given, number]
    if replaces is not None:  # empty texts are never stored
        query += " AND COALESCE(label, '') = ? AND COALESCE(note, '') = ?"
        values += [text or "" for text in replaces]
    connection.execute(query, values)


def remove(connection: TraceConnection, numbers: Iterable[int]) -> int:
    """Remove episodes by their numbers; return how many there were."""
    keys = [(number,) for number in numbers]
    with connection.changing(removes=True):
        connection.executemany("DELETE FROM part WHERE episode = ?", keys)
        connection.executemany("DELETE FROM score WHERE episode = ?", keys)
        connection.executemany("DELETE FROM component WHERE episode = ?", keys)
        connection.executemany(_REMOVE_CONVERSATION, keys)
        used = [name for key in keys for name in connection.execute(_BLOBS_OF, key)]
        connection.executemany("DELETE FROM blob_use WHERE episode = ?", keys)
        connection.executemany(_REMOVE_BLOB, used)
        return connection.executemany("DELETE FROM episode WHERE number = ?", keys).rowcount


def prune(connection: TraceConnection, *, before: float | None, max_bytes: float | None) -> int:
    """Remove the oldest episodes, but for those that run now.

    Args:
        connection: Connection to the database.
        before: Remove what began before this time, in seconds since 1970.
        max_bytes: Remove until the file's contents are no larger.

    Returns:
        The number of removed episodes.
    """
    removed = 0
    while (numbers := _oldest(connection, before)) if before is not None else ():
        removed += remove(connection, numbers)
    piece = 1  # an episode may be a large part of all, and no more than needed are to go
    while max_bytes is not None and connection.used_bytes() > max_bytes:
        numbers = _oldest(connection, None, piece)
        if not numbers:
            break
        removed += remove(connection, numbers)
        piece = min(2 * piece, _PIECE)
    return removed


def number_in(run: int, count: int) -> int:
    """Return the number of an episode in the file."""
    return (run << _RUN_BITS) + count


def name_of(number: int) -> str:
    """Return an episode's id, for people: its run and its count in the run.

    Example:
        >>> name_of(number_in(2, 17))
        '2-17'
    """
    return f"{number >> _RUN_BITS}-{number & ((1 << _RUN_BITS) - 1)}"


def number_of(name: str) -> int | None:
    """Return the number of an episode by its id, as from ``name_of``; ``None`` for another text."""
    run, dash, count = name.partition("-")
    if not dash or not (run.isascii() and run.isdigit() and count.isascii() and count.isdigit()):
        return None
    number = number_in(int(run[:10]), int(count[:10]))
    return number if number < 2**63 else None


def _oldest(connection: TraceConnection, before: float | None, most: int = _PIECE) -> list[int]:
    """Return the numbers of the oldest episodes that do not run now."""
    found = connection.execute(
        f"""
        SELECT episode.number FROM episode LEFT JOIN run ON run.number = episode.number >> {_RUN_BITS}
        WHERE episode.started_at < :before
            AND (episode.ending IS NOT NULL OR run.ended_at IS NOT NULL OR coalesce(run.seen_at, 0) < :alive)
        ORDER BY episode.started_at LIMIT {most}
        """,  # noqa: S608  # constants
        {"before": math.inf if before is None else before, "alive": alive_since(connection)},
    )
    return [number for (number,) in found]


def _real(number: float) -> float:
    """Return a number as the tables hold it; an integer may be too large for that."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _values(run: int, row: EpisodeRow) -> tuple[object, ...]:
    parent = None if row.parent is None else number_in(run, row.parent)
    return (
        number_in(run, row.number),
        _text(row.session),
        row.transport,
        _text(row.environment),
        _text(row.version),
        row.started_at,
        _text(row.episode_id),
        _text(row.seed),
        _text(row.split),
        _text(row.task_index),
        parent,
        row.parent_entries,
        row.steps,
        None if row.reward is None else _real(row.reward),
        row.ending,
        row.ended_at,
        _text(row.error),
        row.token_name,
        row.label,
        row.note,
    )


def _text(text: str | None) -> str | None:
    """Return a text as the tables hold it; half of a surrogate pair has no form in UTF-8."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()
