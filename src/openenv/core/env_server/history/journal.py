"""Journal of sessions, which records requests before their answers are sent.

Each request is recorded with its answer and committed before the answer is sent; answers that are sent together share a
commit. So each answered request is on record, and a request that is not on record was not answered: its client sends it
again, and the server carries it out then.

While the journal can't be written, sessions continue and their requests are dropped. Until a session's next starting
point is on record, a reset or a snapshot, the session can't be rebuilt: its client has answers that the journal lacks.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, Self

from openenv.core.env_server.history.batch import (
    ADD_CHILD,
    ADD_SESSION,
    END,
    Batch,
    Change,
    Note,
)
from openenv.core.env_server.history.clock import JournalClock
from openenv.core.env_server.history.entries import History
from openenv.core.env_server.history.reader import RETRY_AFTER_S, Reader
from openenv.core.env_server.history.record import JournalRecord, hashed
from openenv.core.env_server.history.retention import Retention
from openenv.core.env_server.history.rows import NUMBER_BITS, JournalRow, run_of
from openenv.core.env_server.history.store import Store
from openenv.core.env_server.history.stores.choice import store_at
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.settings import ServerConfig
from openenv.core.exceptions import JournalError, SessionLostError

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024
# Seconds for which an idle session that another server has acquired may keep its slot here; and seconds between
# attempts to write a failing journal.
_CHECK_EVERY_S = 1.0
# Limit of the remembered sessions that other servers have acquired. Such a session ends here long before that.
_MOST_ACQUIRED = 65_536


class JournalState(Enum):
    """State of a journal: whether requests are written."""

    NEW = "new"
    """Not opened yet; ``start`` opens the store."""
    OPEN = "open"
    """Answers wait until their requests are on record."""
    FAILING = "failing"
    """The store can't be written: answers do not wait, requests are dropped, and the write is tried again."""
    CLOSED = "closed"
    """Nothing is recorded, until ``reopen``."""


_OPEN = JournalState.OPEN  # looked up once, since every commit compares with it


class Journal:
    """Journal of sessions; other processes may write the same journal.

    Args:
        store: The store of the journal.
        max_age_s: Age in seconds from which batches are deleted.
        max_bytes: Maximum size in bytes; beyond it, batches of ended sessions are deleted first.

    Attributes:
        name: Name of the journal in messages.
        metrics: Counts of writes.
        notes: Requests of the next commit.
        answers: Answers of the next commit. Records append to both lists; a method call would add a tenth to the cost.
    """

    def __init__(self, store: Store, *, max_age_s: float, max_bytes: int) -> None:
        self.name = store.name
        self.metrics = Metrics()
        self._on_acquired: Callable[[frozenset[int]], None] = _ignore_numbers
        self._on_lost: Callable[[frozenset[int] | None], None] = _ignore_numbers
        self._on_restored: Callable[[], None] = _ignore
        self.notes: list[Note] = []
        self.answers: list[str] = []
        self._store = store
        self._reader = Reader(store)
        self._clock = JournalClock(max_age_s)
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        self._state = JournalState.NEW
        self._retention: Retention | None = None
        self._starting: asyncio.Task[None] | None = None
        self._run: int | None = None
        self._last_number = 0
        self._changes: list[Change] = []
        # While the journal fails: ends of the sessions that have a row, and the last number that may have a row.
        self._unwritten_ends: list[Change] = []
        self._last_number_before_failure = 0
        self._must_check = False
        self._batches = 0
        # One batch is written after the other. The futures are those of the callers who wait until the current batch is
        # written, and until the next batch is, which is being collected. A task writes what can't be written at once.
        self._writing: list[asyncio.Future[bool]] | None = None
        self._collecting: list[asyncio.Future[bool]] = []
        self._writer: asyncio.Task[None] | None = None
        self._unwritten: Batch | None = None
        self._acquired: dict[int, None] = {}
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, config: ServerConfig) -> Self | None:
        """Create the journal of a server, without opening its store; ``None`` for a server without a journal.

        Raises:
            ConfigurationError: The journal's setting is neither a path nor an address of a database.
        """
        if config.journal is None:
            return None
        max_bytes = int(config.journal_max_size_mb * _MEBIBYTE)
        return cls(store_at(config.journal), max_age_s=config.journal_max_age_s, max_bytes=max_bytes)

    def report_to(
        self,
        metrics: Metrics,
        *,
        on_acquired: Callable[[frozenset[int]], None],
        on_lost: Callable[[frozenset[int] | None], None],
        on_restored: Callable[[], None],
    ) -> None:
        """Set what the journal counts in, and the functions that it calls.

        Args:
            metrics: Counts of writes.
            on_acquired: Called with the numbers of sessions that other runs have acquired, before their next answer is
                sent.
            on_lost: Called with the numbers of sessions that can't be rebuilt before their next starting point; with
                ``None`` for all sessions.
            on_restored: Called when the journal can be written again after a failure, or after the loss of its
                contents: live sessions that the journal lacks are to be recorded again with ``add_again``.
        """
        self.metrics = metrics
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._on_restored = on_restored

    def prepare(self) -> None:
        """Create the store, or check the existing store. Blocks; a server calls this before it accepts clients.

        Raises:
            ConfigurationError: The store can't be opened, or has no journal, or a journal of another version.
        """
        self._store.prepare()

    async def start(self) -> None:
        """Open the store for writing, unless it is open already.

        Raises:
            JournalError: The store can't be opened any more.
        """
        if self._run is not None or self._state is JournalState.CLOSED:
            return
        if self._starting is None:  # else another session has started it
            self._starting = asyncio.get_running_loop().create_task(self._open())
            self._starting.add_done_callback(_hear_out)
        try:
            await asyncio.shield(self._starting)
        except JournalError as error:
            self._fail(error)
            raise JournalError(
                f"The journal {self.name} can't be opened: {error.message}", retry_after_s=RETRY_AFTER_S
            ) from error

    @property
    def is_open(self) -> bool:
        """Whether requests are written."""
        return self._state is _OPEN

    def reopen(self) -> None:
        """Allow ``start`` again after ``close``."""
        if self._state is JournalState.CLOSED:
            self._set_state(JournalState.NEW)

    async def close(self) -> None:
        """Write the last batch, and close the store. Sessions that end from now on can be recovered."""
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        if self._run is None or self._state is JournalState.CLOSED:
            self._set_state(JournalState.CLOSED)
            return
        self._must_check = not self.is_open  # a failing journal is tried once more
        await self._next_batch()
        while self._collecting or self._writing is not None:  # what was collected during that write
            await self._next_batch()
        self._set_state(JournalState.CLOSED)
        if self._watching is not None:  # not before: creating the store again starts another watch
            self._watching.cancel()
        self._run = None
        await self._store.close()
        if self._retention is not None:
            await asyncio.to_thread(self._retention.close)
        self._store.cut()

    def add(self, session_id: str, token: str, environment: str) -> JournalRecord:
        """Record a new session, with the next commit."""
        record = JournalRecord(self, self._next_number(), seeded=False)
        about = {"id": session_id, "token": hashed(token), "environment": environment}
        self.change(ADD_SESSION, record.number, since=0, **about)
        return record

    def add_again(
        self, record: JournalRecord, session_id: str, token: str, environment: str, *, is_untouched: bool
    ) -> None:
        """Record a live session again that the store may lack, in whole or in part.

        Args:
            record: Record of the session. The session gets a new number where the store was replaced.
            session_id: Id of the session.
            token: Token that the client must show.
            environment: Name of the environment.
            is_untouched: Whether the session had no request yet. Else its next starting point makes it recoverable.
        """
        if run_of(record.number) != self._run:
            record.number = self._next_number()
        if not is_untouched:
            record.mark_unrecoverable()
        about = {"id": session_id, "token": hashed(token), "environment": environment}
        self.change(ADD_SESSION, record.number, since=0 if is_untouched else 1, **about)
        self.commit_soon()

    def add_child(
        self, parent: int, session_id: str, token: str, environment: str, *, seeded: bool, last_id: int, first_id: int
    ) -> JournalRecord:
        """Record a session that continues its parent from the state after a request.

        Args:
            parent: Number of the parent.
            session_id: Id of the session; the parent's id where the parent was recovered, not forked.
            token: Token that the client must show.
            environment: Name of the environment.
            seeded: Whether a reset of the parent has named a seed.
            last_id: Number of the request.
            first_id: Number of the session's own first request.
        """
        record = JournalRecord(self, self._next_number(), seeded=seeded)
        self.change(
            ADD_CHILD,
            record.number,
            id=session_id,
            token=hashed(token),
            environment=environment,
            parent=parent,
            parent_last_id=last_id,
            first_id=first_id,
        )
        return record

    async def commit(self) -> bool:
        """Write the collected batch, together with what is added while another batch is being written.

        Returns:
            Whether the batch is on record now. A batch that can't be written is dropped.
        """
        if self._state is not _OPEN:
            self._drop()
            return False
        if self.notes or self._changes or self._must_check:
            return await self._next_batch()
        if self._writing is None:
            return True
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._writing.append(written)
        return await written

    async def check(self) -> None:
        """Read which sessions other runs have acquired, if the journal can be reached."""
        self._must_check = True
        await self.commit()

    def is_acquired(self, session: int) -> bool:
        """Return whether another run had acquired a session of this run at the last commit or check."""
        return session in self._acquired

    def end(self, number: int, why: str) -> None:
        """Record the end of a session, soon; not once the journal is closed, as when the server ends."""
        if self._run is None or self._state is JournalState.CLOSED or number in self._acquired:
            return
        self.change(END, number, why=why)
        self.commit_soon()

    def commit_soon(self) -> "asyncio.Future[bool]":
        """Commit in the event loop's next iteration, without an answer that waits. Return a future of the result."""
        if self.is_open:
            return self._next_batch()
        self._drop()
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        written.set_result(False)
        return written

    async def find(self, session: str | int) -> JournalRow | None:
        """Return a session by its id or number; by its id, the row of the last recovery.

        Raises:
            JournalError: The journal can't be read.
        """
        await self.start()
        await self.commit()  # for the ends of sessions that were recorded a moment ago
        return await self._reader.find(session)

    async def read(self, row: JournalRow) -> History:
        """Return the history of a session.

        Raises:
            SessionLostError: Part of the session's history is not on record.
            JournalError: The journal can't be read.
        """
        return await self._reader.read(row)

    async def history_of(self, number: int) -> History:
        """Return the history that a replay of a live session needs.

        Raises:
            SessionLostError: Part of the session's history is not on record.
            JournalError: The journal can't be read or written.
        """
        if not await self.commit():
            raise JournalError(f"The journal {self.name} can't be written just now.")
        row = await self.find(number)
        if row is None:
            raise SessionLostError("it is not in the journal any more.")
        return await self.read(row)

    async def acquire(self, row: JournalRow) -> History:
        """Acquire a session, and return its history. No other run can write the session from now on.

        Raises:
            AcquiredElsewhereError: Another run has acquired the session since it was found.
            SessionLostError: Part of the session's history is not on record.
            JournalError: The journal can't be read or written, or the server ends.
        """
        if self._run is None or self._state is JournalState.CLOSED:
            raise JournalError(f"The journal {self.name} was closed.")
        if not self.is_open:  # requests of the rebuilt session would not be on record
            raise JournalError(f"The journal {self.name} can't be written just now.", retry_after_s=RETRY_AFTER_S)
        return await self._reader.acquire(row, self._run)

    def change(self, statement: str, number: int, **values: Any) -> None:
        """Record a session's row or a change of the row, with the next commit.

        Args:
            statement: Statement with named parameters.
            number: Number of the session.
            **values: Further parameters of the statement, beside ``now``, ``run``, and ``batch``, the number of this
                commit's batch.
        """
        self._changes.append((statement, {"number": number, "now": self._clock.now(), "run": self._run, **values}))

    async def _open(self) -> None:
        try:
            await self._start_run()
            self._opened()
        finally:
            self._starting = None

    async def _start_run(self) -> None:
        """Open the store, or create it again where it was removed, and start a run."""
        run = await self._store.start()
        try:
            await asyncio.to_thread(self._go_on, run)
        except BaseException:
            await self._store.close()
            raise
        self._run = run
        # Counting continues, since live records may use numbers of a run with the same number in the previous store.
        self._last_number = (run << NUMBER_BITS) + self._last_number % (1 << NUMBER_BITS)
        loop = asyncio.get_running_loop()
        if self._watching is None or self._watching.done():
            self._watching = loop.create_task(self._watch())
        report_lost = partial(self._learn_lost_from_thread, loop)
        self._retention = Retention(
            self._store,
            self._clock,
            run,
            self._max_age_s,
            self._max_bytes,
            report_lost,
            lambda: self.metrics.journal_failing,
        )
        self._retention.start()

    def _go_on(self, run: int) -> None:
        with self._store.connect() as connection:
            self._clock.go_on(connection, run)

    async def _begin_anew(self) -> None:
        """Create the store again, which was removed with its contents.

        Raises:
            JournalError: The store can't be created.
        """
        if self._retention is not None:
            logger.error(
                "the journal %s has been removed or replaced while the server runs: what it held of the sessions that "
                "are open is gone. It is created again.",
                self.name,
            )
            self.metrics.journal_replaced += 1
            self._retention.stop()
            self._retention = None
            self._on_lost(None)
        self._clock.begin_anew()
        await self._store.close()
        await self._start_run()
        self._drop()
        self._unwritten_ends.clear()
        self._acquired.clear()
        self._opened()

    def _learn_lost_from_thread(self, loop: asyncio.AbstractEventLoop, sessions: frozenset[int]) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and the sessions with it
            loop.call_soon_threadsafe(self._learn_lost, sessions)

    def _learn_lost(self, sessions: frozenset[int]) -> None:
        if sessions:
            self._on_lost(sessions)

    async def _watch(self) -> None:
        """Check regularly which sessions other runs have acquired, and retry a failing journal."""
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            self._must_check = True
            await self._next_batch()

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _next_batch(self) -> "asyncio.Future[bool]":
        """Let the collected batch be written. Return a new future of its success, which may be cancelled."""
        loop = asyncio.get_running_loop()
        if not self._collecting and self._writing is None:
            loop.call_soon(self._write_next)  # not now, for the requests that end in this iteration, too
        written: asyncio.Future[bool] = loop.create_future()
        self._collecting.append(written)
        return written

    def _write_next(self) -> None:
        """Write the collected batch: at once if possible, else in a task, with the batches collected meanwhile."""
        self._writing, self._collecting = self._collecting, []
        try:
            must_wait = not self._write_at_once()
        except Exception as error:  # noqa: BLE001  # logged; the callers wait
            self._fail_for(error)
            must_wait = False
        if must_wait:
            self._writer = asyncio.get_running_loop().create_task(self._write_batches())
        else:
            self._end_write(is_written=self._state is _OPEN)

    def _end_write(self, *, is_written: bool) -> None:
        for future in self._writing or ():
            if not future.done():
                future.set_result(is_written)
        self._writing = None

    def _write_at_once(self) -> bool:
        """Write the collected batch if that needs no wait; return whether it was written."""
        if self._must_check or self._state is not _OPEN or not (self.notes or self._changes):
            return False
        began = time.perf_counter()
        batch = self._gathered()
        ends = len(self._unwritten_ends)
        while acquired := self._store.write_at_once(batch):
            self._learn_acquired(acquired, batch)
        if acquired is None:
            self._unwritten = batch
            return False
        del self._unwritten_ends[:ends]
        self.metrics.journal_commits += 1
        self.metrics.journal_seconds += time.perf_counter() - began
        return True

    async def _write_batches(self) -> None:
        """Write one batch after the other, until no batch was collected during the last write."""
        try:
            while self._writing is not None:
                await self._write()
                self._end_write(is_written=self.is_open)
                if self._collecting:
                    self._writing, self._collecting = self._collecting, []
        finally:
            self._end_write(is_written=False)  # cancelled with the event loop
            self._writer = None

    async def _write(self) -> None:
        """Write the collected batch; after a failure, check whether the journal can be written again."""
        began = time.perf_counter()
        must_check, self._must_check = self._must_check, False
        if self._state is JournalState.FAILING and not must_check:  # it failed while this batch was being collected
            self._drop()
            return
        try:
            if must_check and (self._retention is None or not await self._store.is_current()):
                await self._begin_anew()
            if self._unwritten or self.notes or self._changes or not self.is_open:
                await self._append()
            elif must_check:
                self._learn_acquired(await self._store.newly_acquired(), None)
        except Exception as error:  # noqa: BLE001  # logged; the callers wait
            self._fail_for(error)
        else:
            if not self.is_open:
                self._opened()
            self.metrics.journal_seconds += time.perf_counter() - began

    async def _append(self) -> None:
        batch, self._unwritten = self._unwritten or self._gathered(), None
        ends = len(self._unwritten_ends)
        while acquired := await self._store.write(batch):
            self._learn_acquired(acquired, batch)
        del self._unwritten_ends[:ends]
        self.metrics.journal_commits += 1

    def _gathered(self) -> Batch:
        """Return the collected batch, without the sessions that other runs have acquired meanwhile."""
        self._batches += 1
        changes = self._unwritten_ends + self._changes
        batch = Batch.of(self._batches, self.notes, self.answers, changes, self._clock.now())
        if self._acquired and not self._acquired.keys().isdisjoint(self._sessions_in(changes)):
            self._learn_acquired(batch.drop(self._acquired), batch)
        self._drop()
        return batch

    def _sessions_in(self, changes: list[Change]) -> Iterator[int]:
        """Iterate over the sessions, and their parents, in the collected notes and in changes."""
        for note in self.notes:
            yield note[0]
        for _, values in changes:
            yield values["number"]
            yield values.get("parent", 0)

    def _learn_acquired(self, sessions: frozenset[int], batch: Batch | None) -> None:
        """Remove the sessions that other runs have acquired, and those that were just forked from them."""
        while sessions:
            self._acquired |= dict.fromkeys(sessions)
            self._on_acquired(sessions)
            sessions = frozenset() if batch is None else batch.drop(sessions)
        while len(self._acquired) > _MOST_ACQUIRED:
            del self._acquired[next(iter(self._acquired))]

    def _fail_for(self, error: Exception) -> None:
        if isinstance(error, JournalError):
            self._fail(error)
        else:
            logger.error("the journal %s can't be written", self.name, exc_info=error)
            self._fail(JournalError(f"{type(error).__name__}: {error}"))

    def _fail(self, error: JournalError) -> None:
        if self._state is not JournalState.FAILING:
            self._set_state(JournalState.FAILING)
            self._last_number_before_failure = self._last_number
            logger.error(
                "the journal %s can't be written, so sessions go on without it and would be lost with this process: %s",
                self.name,
                error.message,
            )
            self._on_lost(None)
        self._drop()

    def _opened(self) -> None:
        if self._state is JournalState.FAILING:
            logger.warning("the journal %s can be written again", self.name)
        self._set_state(_OPEN)
        self._on_restored()

    def _set_state(self, state: JournalState) -> None:
        self._state = state
        self.metrics.journal_failing = state is JournalState.FAILING

    def _drop(self) -> None:
        """Drop the collected batch, except the ends of sessions that may be on record, which are written later."""
        if self._changes:
            last = self._last_number if self.is_open else self._last_number_before_failure
            self._unwritten_ends += [
                (how, values) for how, values in self._changes if how == END and values["number"] <= last
            ]
        self.notes.clear()
        self.answers.clear()
        self._changes = []
        self._unwritten = None


def _hear_out(task: "asyncio.Task[None]") -> None:
    """Retrieve a task's exception, which asyncio would else log if all waiters were cancelled."""
    if not task.cancelled():
        task.exception()


def _ignore_numbers(_sessions: frozenset[int] | None) -> None:
    """Report of numbers to nothing, by default."""


def _ignore() -> None:
    """Report of a restored journal to nothing, by default."""
