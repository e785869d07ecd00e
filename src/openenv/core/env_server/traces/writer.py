"""Thread that writes traces, off the path of the requests. A full disk costs traces, and never an episode."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import OperationalError
from threading import Lock, Thread
from typing import Any, NamedTuple

from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.traces.columns import VALUES, encoded_entries
from openenv.core.env_server.traces.database import (
    REFUSALS,
    STORE_ERRORS,
    NoRoomError,
    TraceConnection,
    TraceDatabase,
)
from openenv.core.env_server.traces.encoding import without_blobs
from openenv.core.env_server.traces.omission import columns_of
from openenv.core.env_server.traces.store import (
    EncodedPart,
    EpisodeRow,
    Run,
    add_run,
    database_at,
    end_run,
    has_run,
    prune,
    write,
)
from openenv.core.env_server.traces.summaries import stored_totals
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.redaction import longest_first, secret_values, without_secrets

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024
# Size of what waits to be written, in characters, beyond which the next parts are dropped.
_MOST_WAITING = 64 * _MEBIBYTE
# Columns with arguments of a reset.
_CHOSEN = ("episode_id", "seed", "split", "task_index")
_RETRY_EVERY_S = 1.0
_HEARTBEAT_EVERY_S = 20.0
_PRUNE_EVERY_S = 30.0
# Shares of the largest size: what is written at once, the largest part, and to what old episodes are removed where room
# is lacking. A file never gets smaller, and has a log beside it.
_SHARE_OF_PIECE, _SHARE_OF_PART, _PRUNED = 0.02, 0.1, 0.9
_LEAST_PIECE = 64 * 1024
_NO_ROOM = (
    "their largest size leaves no room, as the episodes there still run or a part of one is larger than a tenth of it: "
    "raise traces_max_size_mb"
)
# Seconds for the last writes at shutdown.
_CLOSE_TIMEOUT_S = 10.0


class Part(NamedTuple):
    """Part of an episode's trace, as it was collected.

    Attributes:
        row: What is known of the episode.
        number: Number of the part, from 1.
        entries: The values of the entries, as for ``encoded_entries``; empty where only the row has changed.
        offset: Seconds between ``time.monotonic`` and the time since 1970.
    """

    row: EpisodeRow
    number: int
    entries: list[Any]
    offset: float


class _Batch(NamedTuple):
    """Parts that are written together, and the size of their answers in characters."""

    parts: list[Part]
    size: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of a file of traces.

    Attributes:
        max_age_s: Age in seconds after which episodes are removed.
        max_bytes: Size beyond which the oldest episodes are removed.
    """

    max_age_s: float
    max_bytes: float

    @property
    def piece_bytes(self) -> float:
        """Bytes that are written at once, and of an episode's part, where it can be that small."""
        return max(_LEAST_PIECE, self.max_bytes * _SHARE_OF_PIECE)


@dataclass(frozen=True, slots=True)
class Hidden:
    """What traces never store.

    Attributes:
        secrets: Secrets that are replaced, longest first.
        fields: Paths of fields that are left out; see ``omission.py``.
    """

    secrets: Sequence[str] = ()
    fields: Sequence[str] = ()

    def now(self) -> "Hidden":
        """Add the secrets that the process knows now."""
        return replace(self, secrets=longest_first({*self.secrets, *secret_values()}))


class TraceWriter:
    """Writer of traces into a file or a database, in a thread of its own. Several processes may write the same.

    Args:
        location: Path of the file, or address of the database.
        retention: Its bounds.
        metrics: Metrics to count in.
        hidden: What is never stored.

    Attributes:
        piece_bytes: That of ``Retention``.
    """

    def __init__(self, location: str | Path, retention: Retention, metrics: Metrics, hidden: Hidden) -> None:
        self.piece_bytes = retention.piece_bytes
        self._database = database_at(location)
        self._name = self._database.name
        self._retention = retention
        self._metrics = metrics
        self._hidden = hidden
        self._queue: SimpleQueue[_Batch | None] = SimpleQueue()
        self._waiting = 0
        self._counting = Lock()
        self._thread: Thread | None = None

    def prepare(self) -> None:
        """Check the file, and create it if it does not exist. Blocks.

        Raises:
            ConfigurationError: The file can't be used.
        """
        self._database.prepare()

    def start(self) -> None:
        """Start the thread; also after ``close``."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="trace-writer", daemon=True)
            self._thread.start()

    def put(self, parts: list[Part], size: int) -> None:
        """Have parts written; drop them if too much waits already.

        Args:
            parts: The parts.
            size: Size of their answers in characters.
        """
        with self._counting:
            is_too_much = self._waiting > _MOST_WAITING
            if not is_too_much:
                self._waiting += size
        if is_too_much:
            self._metrics.trace_parts_dropped["backlog"] += len(parts)
        else:
            self._queue.put(_Batch(parts, size))

    def close(self) -> None:
        """Write what waits, and end the thread. Blocks for some seconds at most."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._queue.put(None)
        thread.join(_CLOSE_TIMEOUT_S)
        if thread.is_alive():
            logger.error("the traces %s were not written completely in %g s", self._name, _CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        _Writing(self._database, self._retention, self._metrics, self._hidden, self._written).run(self._queue)

    def _written(self, size: int) -> None:
        with self._counting:
            self._waiting -= size


class _Writing:
    """State of the thread: the open database, and the batch that could not be written yet.

    Args:
        database: Where the traces are kept.
        retention: Its bounds.
        metrics: Metrics to count in.
        hidden: What is never stored.
        on_written: Called with the size of each batch that was written.
    """

    def __init__(
        self,
        database: TraceDatabase,
        retention: Retention,
        metrics: Metrics,
        hidden: Hidden,
        on_written: Callable[[int], None],
    ) -> None:
        self._database = database
        self._name = database.name
        self._retention = retention
        self._metrics = metrics
        self._hidden = hidden
        self._on_written = on_written
        self._file = ExitStack()
        self._connection: TraceConnection | None = None
        self._identity: object = None
        self._recording: Run | None = None
        self._unwritten: list[EncodedPart] = []
        self._unwritten_size = 0
        self._prune_at = 0.0
        self._dropped = metrics.trace_parts_dropped.total()  # at the last message

    def run(self, queue: "SimpleQueue[_Batch | None]") -> None:
        """Write batches until ``None`` comes."""
        is_open = True
        while is_open:
            batches, is_open = _next_of(queue, _RETRY_EVERY_S if self._unwritten else _HEARTBEAT_EVERY_S)
            for batch in batches:
                self._unwritten_size += batch.size
            try:
                self._add(part for batch in batches for part in batch.parts)
                self._write()
            except Exception:  # costs what waits, and must not end the thread
                lost = len(self._unwritten)
                logger.exception("%d parts of episodes can't be written into the traces %s", lost, self._name)
                self._metrics.trace_parts_dropped["other"] += lost
                self._forget_written()
        self._end()

    def _add(self, parts: Iterable[Part]) -> None:
        hidden = self._hidden.now()
        for part in parts:
            try:
                self._unwritten.append(_encoded_part(part, hidden))
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
                self._lose(1, "encoding", error)

    def _write(self) -> None:
        dropped = self._metrics.trace_parts_dropped["size"]
        try:
            self._write_pieces(*self._open())
        except (OSError, *STORE_ERRORS, ConfigurationError) as error:
            self._fail(error)
            if not isinstance(error, OperationalError):  # the file is another one or damaged, or the connection is lost
                self._close()
            return
        if self._metrics.trace_parts_dropped["size"] > dropped:
            self._fail(NoRoomError(_NO_ROOM))
        else:
            self._succeed()
        self._forget_written()

    def _write_pieces(self, connection: TraceConnection, run: Run) -> None:
        """Write what waits; a part that the database refuses is lost, as it would keep all later ones waiting."""
        most = len(self._unwritten)
        while True:
            count, size = self._fitting(most)
            try:
                self._write_piece(connection, run, self._unwritten[:count], size)
            except REFUSALS as error:
                if count > 1:
                    most = count // 2
                    continue
                self._lose(count, "refused", error)
            del self._unwritten[:count]
            most = len(self._unwritten)
            if not self._unwritten:
                break
        if time.monotonic() >= self._prune_at:
            try:
                self._prune(connection)
            except STORE_ERRORS as error:
                logger.warning("old episodes can't be removed from the traces %s: %s", self._name, error)

    def _write_piece(self, connection: TraceConnection, run: Run, piece: list[EncodedPart], size: int) -> None:
        """Write parts that have so many bytes, or only what is known of their episodes if no room can be made."""
        has_room = size <= self._retention.max_bytes * _SHARE_OF_PART
        while has_room:
            try:
                write(connection, run, piece, size)
            except NoRoomError:
                has_room = self._prune(connection, size)
            else:
                return
        write(connection, run, [replace(part, content=b"", entries=0, blobs={}) for part in piece])
        self._metrics.trace_parts_dropped["size"] += sum(bool(part.content) for part in piece)

    def _fitting(self, most: int) -> tuple[int, int]:
        """Return how many parts are written together, one or as many as a piece has, and their size in bytes."""
        largest = self._retention.piece_bytes
        size = 0
        for count, part in enumerate(self._unwritten[:most]):
            own = len(part.content) + sum(map(len, part.blobs.values()))
            if count and size + own > largest:
                return count, size
            size += own
        return min(most, len(self._unwritten)), size

    def _lose(self, count: int, why: str, error: Exception) -> None:
        self._metrics.trace_parts_dropped[why] += count
        logger.warning("%d parts of episodes can't be written into the traces %s: %r", count, self._name, error)

    def _forget_written(self) -> None:
        self._unwritten.clear()
        size, self._unwritten_size = self._unwritten_size, 0
        self._on_written(size)

    def _open(self) -> tuple[TraceConnection, Run]:
        """Return the connection to the tables, which are created again where they were removed, and the run there."""
        run = self._recording
        if self._connection is not None and run is not None and self._identity == self._database.identity():
            return self._connection, run
        self._close()
        self._database.prepare()
        connection = self._file.enter_context(self._database.connect())
        connection.limit(self._retention.max_bytes)
        if run is None or self._identity != self._database.identity() or not has_run(connection, run):
            run = add_run(connection)
        self._identity = self._database.identity()
        self._connection, self._recording = connection, run
        return connection, run

    def _fail(self, error: Exception) -> None:
        if not self._metrics.traces_failing:
            self._metrics.traces_failing = True
            logger.error("the traces %s can't be written, so episodes may not be on record: %s", self._name, error)

    def _succeed(self) -> None:
        before, self._dropped = self._dropped, self._metrics.trace_parts_dropped.total()
        dropped = self._dropped - before
        if self._metrics.traces_failing or dropped:
            self._metrics.traces_failing = False
            logger.warning("the traces %s are written again; %d parts of episodes are lost", self._name, dropped)

    def _prune(self, connection: TraceConnection, size: int = 0) -> bool:
        """Remove what is too old, and the oldest episodes until there is room for so many bytes; return if there is."""
        self._prune_at = time.monotonic() + _PRUNE_EVERY_S
        most = self._retention.max_bytes * _PRUNED - size
        prune(connection, before=connection.now() - self._retention.max_age_s, max_bytes=most)
        return connection.used_bytes() <= most

    def _end(self) -> None:
        if self._unwritten:
            logger.error("the traces %s lack the last %d parts of episodes", self._name, len(self._unwritten))
        try:
            if self._connection is not None and self._recording is not None:
                end_run(self._connection, self._recording)
        except STORE_ERRORS as error:
            logger.warning("the end of the traces %s is not on record: %s", self._name, error)
        self._close()

    def _close(self) -> None:
        self._connection = None
        with suppress(*STORE_ERRORS):  # the connection may be lost already
            self._file.close()


def _encoded_part(part: Part, hidden: Hidden) -> EncodedPart:
    row, number, entries, offset = part
    row = _redacted(row, hidden)
    if row.components:
        row.components = stored_totals(row.components, hidden.fields)
    if not entries:
        return EncodedPart(row, number, b"", 0)
    content, blobs = without_blobs(encoded_entries(entries, offset, hidden.secrets, hidden.fields))
    return EncodedPart(row, number, content, len(entries) // VALUES, blobs)


def _redacted(row: EpisodeRow, hidden: Hidden) -> EpisodeRow:
    """Return an episode's row without what is hidden of that which its client chose."""
    chosen = {name: value for name in _CHOSEN if (value := getattr(row, name)) is not None}
    if not chosen:
        return row
    chosen = without_secrets(chosen, hidden.secrets)
    return replace(row, **{**chosen, **dict.fromkeys(columns_of(hidden.fields))})


def _next_of(queue: "SimpleQueue[_Batch | None]", timeout_s: float) -> tuple[list[_Batch], bool]:
    """Wait for batches; return all there are, and whether more may come."""
    batches: list[_Batch] = []
    try:
        batch = queue.get(timeout=timeout_s)
        while batch is not None:
            batches.append(batch)
            batch = queue.get_nowait()
    except Empty:
        return batches, True
    return batches, False
