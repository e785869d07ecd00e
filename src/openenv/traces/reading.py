"""Reading of a file of traces, which servers may write meanwhile."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic_core import to_json

from openenv.core.env_server.traces.store import (
    ALIVE_S,
    COLUMNS,
    check,
    connected,
    name_of,
    number_of,
    prune,
    remove,
)
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import INTERRUPTED, RUNNING, Entry, Episode, Filter

# Forks of forks that are followed to the first episode.
_MOST_FORKS = 1000

_CONDITIONS = {
    "environment": "environment = :environment",
    "split": "split = :split",
    "index": "task_index = :index",
    "seed": "seed = :seed",
    "episode_id": "episode_id = :episode_id",
    "session": "substr(session, 1, length(:session)) = :session",
    "min_reward": "reward >= :min_reward",
    "max_reward": "reward <= :max_reward",
    "since": "episode.started_at >= :since",
    "until": "episode.started_at <= :until",
    "ending": "how = :ending",
    "text": "EXISTS (SELECT 1 FROM part WHERE part.episode = episode.number AND instr(content, :text))",
}
_HOW = f"""
CASE WHEN ending IS NOT NULL THEN ending
    WHEN run.ended_at IS NULL AND run.seen_at >= :alive THEN '{RUNNING}' ELSE '{INTERRUPTED}' END AS how
"""
_SELECT = f"""
SELECT {", ".join(f"episode.{name}" for name in COLUMNS)}, {_HOW}
FROM episode LEFT JOIN run ON run.number = episode.number >> 32
"""  # noqa: S608  # constants


def open(path: str | Path) -> "TraceFile":  # noqa: A001  # read as traces.open
    """Open a file of traces for reading.

    Args:
        path: The file.

    Raises:
        ConfigurationError: There is no such file, it has no traces, is damaged, or is of another version.

    Example::

        with openenv.traces.open("traces.db") as traces:
            for episode in traces.episodes(Filter(environment="catch", min_reward=1.0)):
                print(episode.id, [entry.request for entry in traces.entries(episode.id)])
    """
    return TraceFile(Path(path))


class TraceFile:
    """File of traces; a context manager.

    Args:
        path: The file.

    Raises:
        ConfigurationError: As for ``open``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise ConfigurationError(f"Expected a file of traces at {path}, found none.")
        self._opening = connected(path)
        with self._readable():
            self._connection = self._opening.__enter__()
        try:
            with self._readable():
                check(self._connection, path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; what was not read yet can't be read any more."""
        self._opening.__exit__(None, None, None)

    def episodes(self, where: Filter | None = None, limit: int | None = None) -> Iterator[Episode]:
        """Iterate over episodes, newest first, without reading their entries.

        Args:
            where: Filter; by default all.
            limit: Maximum number.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        given = {name: value for name, value in asdict(where or Filter()).items() if value is not None}
        conditions = " AND ".join(_CONDITIONS[name] for name in given) or "1"
        if "text" in given:
            given["text"] = to_json(given["text"])[1:-1]  # as it stands within JSON
        query = f"{_SELECT} WHERE {conditions} ORDER BY episode.started_at DESC LIMIT :limit"
        yield from self._read(query, {**given, "limit": -1 if limit is None else limit})

    def episode(self, name: str) -> Episode:
        """Return an episode by its id.

        Raises:
            ConfigurationError: There is no such episode, or the file is damaged or locked.
        """
        number = number_of(name)
        found = (
            [] if number is None else list(self._read(f"{_SELECT} WHERE episode.number = :number", {"number": number}))
        )
        if not found:
            raise ConfigurationError(
                f"Expected the id of an episode in {self._path}, as openenv traces list shows it, got {name!r}."
            )
        return found[0]

    def entries(self, name: str) -> Iterator[Entry]:
        """Iterate over the entries of an episode, those before a fork included.

        Args:
            name: Id of the episode.

        Raises:
            ConfigurationError: There is no such episode, some of its entries are not on record, or the file is damaged.
        """
        self.episode(name)
        number = number_of(name)
        assert number is not None
        for ancestor, count in self._lineage(number):
            yield from self._entries_of(ancestor, count)

    def prune(self, *, before: float | None = None, max_bytes: float | None = None) -> int:
        """Remove the oldest episodes, but for those that run now.

        Args:
            before: Remove what began before this time, in seconds since 1970.
            max_bytes: Remove until the file's contents are no larger.

        Returns:
            The number of removed episodes.

        Raises:
            ConfigurationError: The file can't be written.
        """
        with self._readable():
            return prune(self._connection, before=before, max_bytes=max_bytes)

    def remove(self, names: list[str]) -> int:
        """Remove episodes by their ids; return how many there were.

        Raises:
            ConfigurationError: The file can't be written.
        """
        numbers = [number for number in map(number_of, names) if number is not None]
        with self._readable():
            return remove(self._connection, numbers)

    def _lineage(self, number: int) -> list[tuple[int, int | None]]:
        """Return the episodes that an episode continues, oldest first, and how many entries to read of each."""
        lineage: list[tuple[int, int | None]] = [(number, None)]
        while len(lineage) < _MOST_FORKS:
            with self._readable():
                found = self._connection.execute(
                    "SELECT parent, parent_entries FROM episode WHERE number = ?", (lineage[0][0],)
                ).fetchone()
            if found is None:
                raise ConfigurationError(
                    f"The episode {name_of(number)} continues the episode {name_of(lineage[0][0])}, which is not on "
                    "record any more."
                )
            if found[0] is None:
                break
            lineage.insert(0, found)
        return lineage

    def _entries_of(self, number: int, count: int | None) -> Iterator[Entry]:
        """Iterate over the first entries of an episode; over all for ``None``."""
        with self._readable():
            parts = self._connection.execute(
                "SELECT number, content FROM part WHERE episode = ? ORDER BY number", (number,)
            )
            for expected, (part, content) in enumerate(parts, 1):
                if part != expected:
                    raise ConfigurationError(
                        f"Some entries of the episode {name_of(number)} are not on record, since the traces could not "
                        "be written then."
                    )
                for line in content.splitlines():
                    if count == 0:
                        return
                    yield Entry.of_line(line)
                    count = None if count is None else count - 1

    def _read(self, query: str, values: dict[str, Any]) -> Iterator[Episode]:
        with self._readable():
            for row in self._connection.execute(query, {**values, "alive": time.time() - ALIVE_S}):
                yield _episode_of(dict(zip(COLUMNS, row, strict=False)), row[-1])

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise ConfigurationError(f"The traces {self._path} can't be read: {error}.") from error


def _episode_of(row: dict[str, Any], ending: str) -> Episode:
    return Episode(
        id=name_of(row["number"]),
        environment=row["environment"],
        version=row["version"],
        session=row["session"],
        transport=row["transport"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        episode_id=row["episode_id"],
        seed=row["seed"],
        split=row["split"],
        index=row["task_index"],
        steps=row["steps"],
        reward=row["reward"],
        ending=ending,
        error=row["error"],
        parent=None if row["parent"] is None else name_of(row["parent"]),
    )
