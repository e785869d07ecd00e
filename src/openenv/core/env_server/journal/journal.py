"""Takes down what sessions do, so that it is on record before the answers leave.

Each request is noted with its answer and committed before the answer leaves, all that leave together in one commit. So
what was answered is on record, and what is not on record was not answered: its client sends it again, and it is carried
out then.

While the journal can't be written, sessions go on all the same, and what they do waits for it as far as there is room.
Whoever was answered what never came to be on record can't have that session rebuilt: its client knows of answers that
the journal does not.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Self

from openenv.core.env_server.journal.batch import (
    ADD_CHILD,
    ADD_SESSION,
    END,
    Batch,
    Change,
    Note,
    unforgettable,
)
from openenv.core.env_server.journal.clock import JournalClock
from openenv.core.env_server.journal.history import NUMBER_BITS, Row, Told
from openenv.core.env_server.journal.reader import Reader
from openenv.core.env_server.journal.record import JournalRecord, hashed
from openenv.core.env_server.journal.store import Store
from openenv.core.env_server.journal.stores import store_at
from openenv.core.env_server.journal.upkeep import Upkeep
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.metrics import Metrics
from openenv.core.exceptions import JournalError

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024
# Characters that may wait for a journal that can't be written just now. What goes beyond is forgotten, and with it the
# chance to rebuild those sessions before their next reset.
_MOST_WAITING = 16 * 1024 * 1024
_RETRY_EVERY_S = 1.0
# How long a session that another server has taken up may keep its place here, where nobody asks anything of it.
_CHECK_EVERY_S = 1.0


class Journal:
    """A journal that this process writes; others may write the same one.

    Args:
        store: Where it is kept.
        max_age_s: Age from which what sessions did is forgotten.
        max_bytes: Bytes that it may take; beyond that, what ended sessions did is forgotten first.

    Attributes:
        name: What messages call it.
        writes_at_once: Whether a commit never gives way to other tasks.
        metrics: Where it counts what it writes.
        notes: What the next commit writes: requests,
        answers: and their answers. Records add to both; a call for each would cost a tenth of what all of it costs.
        on_taken: Called with the numbers of sessions that others have taken up, before any answer of theirs leaves.
        on_lost: Called with the numbers of sessions that can't be rebuilt before their next beginning; with ``None``
            where no session can.
        on_mended: Called when it can be written again.
        on_begun_anew: Called when the store had gone with all that it held and was made anew: what lives is to be taken
            down again, by ``add_again``.
    """

    def __init__(self, store: Store, *, max_age_s: float, max_bytes: int) -> None:
        self.name = store.name
        self.writes_at_once = store.writes_at_once
        self.metrics = Metrics()
        self.on_taken: Callable[[frozenset[int]], None] = _nobody_cares
        self.on_lost: Callable[[frozenset[int] | None], None] = _nobody_cares
        self.on_mended: Callable[[], None] = _nothing_to_take_down
        self.on_begun_anew: Callable[[], None] = _nothing_to_take_down
        self.notes: list[Note] = []
        self.answers: list[str] = []
        self._store = store
        self._reader = Reader(store)
        self._clock = JournalClock(max_age_s)
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        self._upkeep: Upkeep | None = None
        self._starting: asyncio.Task[int] | None = None
        self._run: int | None = None
        self._closed = False
        self._next_number = 0
        self._changes: list[Change] = []
        self._must_check = False
        self._unwritten: deque[Batch] = deque()
        self._batches = 0
        # Whether answers wait until they are on record, which they do not while that was in vain.
        self._answers_wait = True
        # Writing goes in rounds, each of which takes what was gathered before; the last one that was at least tried.
        self._rounds = 0
        self._tried = 0
        self._writing: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._taken: set[int] = set()
        self._committing_soon: asyncio.Task[bool] | None = None
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def within(cls, limits: Limits, place: str) -> Self:
        """Make the journal of a server.

        Args:
            limits: What the server grants.
            place: Path of a file, or address of a database.

        Raises:
            ConfigurationError: It can't be opened, is no journal, or is one of another version.
        """
        max_bytes = int(limits.journal_max_size_mb * _MEBIBYTE)
        return cls(store_at(place), max_age_s=limits.journal_max_age_s, max_bytes=max_bytes)

    async def start(self) -> None:
        """Get ready to write; nothing where that was done already.

        Raises:
            JournalError: The store can't be opened any more.
        """
        if self._run is not None or self._closed:
            return
        if self._starting is None:  # else another session came at the same time
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(_hear_out)
        try:
            await asyncio.shield(self._starting)
        except JournalError as error:
            self._tell_failing(error)
            raise JournalError(f"The journal {self.name} can't be opened: {error.message}") from error

    def reopen(self) -> None:
        """Be of use again after ``close``, from the next ``start`` on."""
        self._closed = False

    async def close(self) -> None:
        """Write what waits, and let go of the store. What ends from now on is not noted: it can be taken up again."""
        if self._run is None or self._closed:
            return
        if self._watching is not None:
            self._watching.cancel()
        self._retry_at = 0.0
        await self.commit()
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        self._closed = True
        self._run = None
        await self._store.close()
        if self._upkeep is not None:
            await asyncio.to_thread(self._upkeep.close)
        self._store.cut()

    def add(self, session_id: str, token: str, environment: str) -> JournalRecord:
        """Take down a new session, with the next commit."""
        record = JournalRecord(self, self._number(), seeded=False)
        about = {"id": session_id, "token": hashed(token), "environment": environment}
        self.change(ADD_SESSION, record.number, since=0, **about)
        return record

    def add_again(self, record: JournalRecord, session_id: str, token: str, environment: str, last_id: int) -> None:
        """Take down a live session of which a new store knows nothing. It can be rebuilt from its next beginning on.

        Args:
            record: The session's, which goes by another number from now on.
            session_id: The session's id.
            token: What its client must show.
            environment: What its environment is.
            last_id: Number of its last request.
        """
        record.number = self._number()
        if last_id > 0:
            record.lose_beginning()
        about = {"id": session_id, "token": hashed(token), "environment": environment}
        self.change(ADD_SESSION, record.number, since=min(last_id, 1), **about)
        self.commit_soon()

    def add_child(
        self, parent: int, session_id: str, token: str, environment: str, *, seeded: bool, last_id: int, first_id: int
    ) -> JournalRecord:
        """Take down a session that continues another one from the state after a request.

        Args:
            parent: The other one's number.
            session_id: The session's id; the other one's, where it is the same that was recovered.
            token: What its client must show.
            environment: What its environment is.
            seeded: Whether a reset of the other one has named a seed.
            last_id: Number of the request.
            first_id: Number of its own first request.
        """
        record = JournalRecord(self, self._number(), seeded=seeded)
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
        """Write what was taken down.

        Returns:
            Whether all of it is on record now. What can't be written waits for a later commit.
        """
        to_write = self._must_check or bool(self.notes or self._changes or (self._unwritten and not self._writing))
        if not to_write and self._writing is None:
            return True
        if self._closed or self._run is None:
            self._clear()
            return False
        if self.writes_at_once:
            if self._answers_wait or time.monotonic() >= self._retry_at:
                await self._write()
        else:
            await self._write_together(self._rounds + 1 if to_write else self._rounds)
        return not self.metrics.journal_failing

    async def check(self) -> None:
        """Learn which sessions others have taken up, as far as the journal can be reached."""
        self._must_check = True
        await self.commit()

    def is_taken(self, session: int) -> bool:
        """Whether another run has taken up a session of this one, as far as it is known from the last commit."""
        return session in self._taken

    def end(self, number: int, why: str) -> None:
        """Take down that a session has ended, soon; not once the journal is closed, as when the server ends."""
        if self._run is None or self._closed or number in self._taken:
            return
        self.change(END, number, why=why)
        self.commit_soon()

    def commit_soon(self) -> None:
        """Commit in the loop's next turn; for what no answer waits for."""
        if self._committing_soon is None or self._committing_soon.done():
            self._committing_soon = asyncio.get_running_loop().create_task(self.commit())

    async def find(self, session: str | int) -> Row | None:
        """Find a session by its id or its number; by its id as it was when it was last recovered.

        Raises:
            JournalError: The journal can't be read.
        """
        await self.start()
        await self.commit()  # for the ends of sessions that were taken down a moment ago
        return await self._reader.find(session)

    async def tell(self, row: Row) -> Told:
        """Tell how to rebuild a session.

        Raises:
            SessionLostError: Some of what it did is not on record.
            JournalError: The journal can't be read.
        """
        return await self._reader.tell(row)

    async def take_up(self, row: Row) -> Told:
        """Become the one who holds a session, and tell how to rebuild it. Nobody else adds to it from now on.

        Raises:
            TakenElsewhereError: Another run has taken it up since it was found.
            SessionLostError: Some of what it did is not on record.
            JournalError: The journal can't be read or written, or the server ends.
        """
        if self._run is None or self._closed:
            raise JournalError(f"The journal {self.name} was closed.")
        return await self._reader.take_up(row, self._run)

    def change(self, statement: str, number: int, **values: Any) -> None:
        """Take down a session's row or a change of it, with the next commit.

        Args:
            statement: What to execute, with named parameters.
            number: The session's number.
            **values: Its further parameters; there are also ``now``, ``run``, and ``batch``, the number of this
                commit's batch.
        """
        self._changes.append((statement, {"number": number, "now": self._clock.now(), "run": self._run, **values}))

    async def _start(self) -> int:
        """Open the store, or make it anew where it has gone, and begin a run."""
        try:
            run = await self._store.start()
            if self.writes_at_once:
                self._go_on(run)
            else:
                await asyncio.to_thread(self._go_on, run)
        finally:
            self._starting = None
        self._run = run
        # Counted on, since there may be records of sessions that go by numbers of the same run in another store.
        self._next_number = (run << NUMBER_BITS) + self._next_number % (1 << NUMBER_BITS)
        loop = asyncio.get_running_loop()
        if self._watching is None or self._watching.done():
            self._watching = loop.create_task(self._watch())
        told = partial(self._learn_lost_from_thread, loop)
        self._upkeep = Upkeep(
            self._store, self._clock, run, self._max_age_s, self._max_bytes, told, lambda: self.metrics.journal_failing
        )
        self._upkeep.start()
        return run

    def _go_on(self, run: int) -> None:
        with self._store.connect() as connection:
            self._clock.go_on(connection, run)

    async def _begin_anew(self) -> None:
        """Make the store anew, which has gone with all that it held.

        Raises:
            JournalError: It can't be made.
        """
        if self._upkeep is not None:
            logger.error(
                "the journal %s has been removed or replaced while the server runs: what it held of the sessions that "
                "are open is gone. It is made anew.",
                self.name,
            )
            self.metrics.journal_replaced += 1
            self._upkeep.stop()
            self._upkeep = None
            self.on_lost(None)
        self._clock.begin_anew()
        await self._store.close()
        await self._start()
        self._clear()
        self._unwritten.clear()
        self._taken.clear()
        self.on_begun_anew()

    def _learn_lost_from_thread(self, loop: asyncio.AbstractEventLoop, sessions: frozenset[int]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the sessions
            loop.call_soon_threadsafe(self._learn_lost, sessions)

    def _learn_lost(self, sessions: frozenset[int]) -> None:
        if sessions:
            self.on_lost(sessions)

    async def _watch(self) -> None:
        """Learn of what others have taken up, and write what waits, though nobody is to be answered."""
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            await self.check()

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    async def _write_together(self, wanted: int) -> None:
        """Have a task write, which outlives whoever waits for it; what is gathered meanwhile leaves together after it.

        Args:
            wanted: Number of the round to wait for.
        """
        while self._tried < wanted:
            if self._writing is None:
                if not self._answers_wait and time.monotonic() < self._retry_at:
                    return
                self._writing = asyncio.get_running_loop().create_task(self._write())
                self._writing.add_done_callback(self._wrote)
            if not self._answers_wait:  # for what may take long and be in vain
                return
            await asyncio.wait((self._writing,))

    def _wrote(self, task: "asyncio.Task[None]") -> None:
        self._writing = None
        if not task.cancelled() and task.exception() is not None:
            logger.error("the journal %s can't be written", self.name, exc_info=task.exception())

    async def _write(self) -> None:
        """Write what was gathered, after what could not be written before."""
        must_check, self._must_check = self._must_check, False
        self._rounds += 1
        this_round = self._rounds
        began = time.perf_counter()
        try:
            if must_check and not await self._store.is_in_place():
                await self._begin_anew()
            written = await self._write_gathered()
            if must_check and not written:
                self._learn_taken(await self._store.newly_taken())
            if self.metrics.journal_failing and written:
                self._answers_wait = True  # again; some have left meanwhile
                await self._write_gathered()
                self._tell_mended()
        except JournalError as error:
            self._fail(error)
            return
        finally:
            self._tried = this_round
        self.metrics.journal_seconds += time.perf_counter() - began

    async def _write_gathered(self) -> int:
        """Write all that there is. Returns how many batches that were."""
        probes = self.metrics.journal_failing and not self._unwritten  # nobody would learn else that it can be written
        if self.notes or self._changes or probes:
            self._unwritten.append(self._gathered())
        count = len(self._unwritten)
        while self._unwritten:
            while taken := await self._store.write(self._unwritten[0]):
                self._learn_taken(taken)
            self._unwritten.popleft()
            self.metrics.journal_commits += 1
        return count

    def _gathered(self) -> Batch:
        """Make a batch of what was gathered, without what those did that others have taken up meanwhile."""
        self._batches += 1
        batch = Batch.of(self._batches, self.notes, self.answers, self._changes, self._clock.now())
        if self._taken and not self._taken.isdisjoint(self._gathered_from()):
            self._learn_taken(batch.drop(self._taken))
        self.notes.clear()
        self.answers.clear()
        self._changes = []
        return batch

    def _gathered_from(self) -> Iterator[int]:
        """The numbers of sessions that have done something since the last commit, or were forked."""
        for note in self.notes:
            yield note[0]
        for _, values in self._changes:
            yield values["number"]
            yield values.get("parent", 0)

    def _learn_taken(self, sessions: frozenset[int]) -> None:
        """Give up sessions that others have taken up, and those that were just forked from them."""
        while sessions:
            self._taken |= sessions
            self.on_taken(sessions)
            sessions = frozenset().union(*(batch.drop(sessions) for batch in self._unwritten))

    def _fail(self, error: JournalError) -> None:
        self._answers_wait = False
        self._tell_failing(error)
        self._retry_at = time.monotonic() + _RETRY_EVERY_S
        if sum(batch.size for batch in self._unwritten) > _MOST_WAITING:
            self._forget_waiting()

    def _tell_failing(self, error: JournalError) -> None:
        if not self.metrics.journal_failing:
            self.metrics.journal_failing = True
            logger.error(
                "the journal %s can't be written, so sessions go on without it and would be lost with this process: %s",
                self.name,
                error.message,
            )
            self._store.set_patient(is_patient=False)

    def _tell_mended(self) -> None:
        self.metrics.journal_failing = False
        logger.warning("the journal %s can be written again", self.name)
        self._store.set_patient(is_patient=True)
        self.on_mended()

    def _forget_waiting(self) -> None:
        changes = [change for batch in self._unwritten for change in batch.changes]
        lost = {values["number"] for _, values in self._changes}.union(*(batch.sessions() for batch in self._unwritten))
        self._unwritten.clear()
        self._changes = unforgettable([*changes, *self._changes])
        self.on_lost(frozenset(lost))

    def _clear(self) -> None:
        self.notes.clear()
        self.answers.clear()
        self._changes.clear()
        self._must_check = False


def _hear_out(task: "asyncio.Task[int]") -> None:
    """Read what a task has raised, since those who waited for it may have gone."""
    if not task.cancelled():
        task.exception()


def _nobody_cares(_sessions: frozenset[int] | None) -> None:
    """Stands in for ``Journal.on_taken`` and ``Journal.on_lost``."""


def _nothing_to_take_down() -> None:
    """Stands in for ``Journal.on_mended`` and ``Journal.on_begun_anew``."""
