"""Store of a journal: the protocol that the file and the database share.

Both have the same four tables (``sqlite.py`` describes them) and accept the same statements, which name their
parameters as ``:name``. Writes that answers wait for go through ``Store.write``, one batch at a time; all other
statements go through a ``Connection``, in a thread.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from openenv.core.env_server.history.batch import Batch


class Rows(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, a tuple; ``None`` after the last row."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""


class Connection(Protocol):
    """Connection to the tables, for one thread.

    Attributes:
        piece: Number of batches to delete at a time.
    """

    piece: int

    def execute(self, statement: str, values: Mapping[str, Any] = ..., /) -> Rows:
        """Execute a statement with named parameters."""

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows of a query, which may be too many for the memory."""

    def reading(self) -> AbstractContextManager[Any]:
        """Open a transaction in which all reads see the same moment."""

    def changing(self) -> AbstractContextManager[Any]:
        """Open a transaction for changes, which is rolled back on an exception."""

    def lock_runs(self, runs: Iterable[int]) -> None:
        """Block commits of some runs until the end of the transaction, and wait for their commits in progress.

        Args:
            runs: Numbers of the runs, in ascending order, which avoids deadlocks.
        """

    def leads(self) -> bool:
        """Return whether this process, not another, is to maintain the tables now."""

    def used_bytes(self) -> int:
        """Return the bytes in use."""

    def delete_batches(self, numbers: list[int]) -> None:
        """Delete batches, by their numbers."""

    def tidy(self) -> None:
        """Do the store's regular maintenance beside the deletion of rows."""


class Store(Protocol):
    """Store of a journal. Errors of its library become a ``JournalError`` with the library's message.

    Attributes:
        name: Name of the store in messages, without secrets.
        prune_every_s: Seconds between searches for batches to delete.
    """

    name: str
    prune_every_s: float

    def prepare(self) -> None:
        """Create the tables, or check the existing tables. Blocks.

        Raises:
            ConfigurationError: The store can't be opened, or has no journal, or a journal of another version.
        """

    async def start(self) -> int:
        """Open the store for writing; also after ``close``. A store that was removed meanwhile is created again.

        Returns:
            The number of a new run, unique in the store.

        Raises:
            JournalError: The store can't be opened any more, or its contents are no journal now.
        """

    async def is_current(self) -> bool:
        """Return whether the open store is still the one at its path or address, not removed or replaced.

        Raises:
            JournalError: The store can't be reached just now.
        """

    def write_at_once(self, batch: Batch) -> frozenset[int] | None:
        """Write a batch as ``write`` does, if that blocks the event loop for some microseconds only.

        Returns:
            As ``write``; ``None`` if nothing was written and the batch is to be written with ``write``.

        Raises:
            JournalError: As ``write``.
        """

    async def write(self, batch: Batch) -> frozenset[int]:
        """Write a batch, unless other runs have acquired sessions of this run since the last call.

        A write that failed may have been committed; the same batch is tried again unchanged, and is not written twice.

        Returns:
            The numbers of the acquired sessions; if any, nothing was written.

        Raises:
            JournalError: The batch can't be written just now.
        """

    async def newly_acquired(self) -> frozenset[int]:
        """Return the sessions of this run that other runs have acquired since the last call or write.

        Raises:
            JournalError: The store can't be read just now.
        """

    def connect(self) -> AbstractContextManager[Connection]:
        """Open a connection for this thread.

        Raises:
            JournalError: The store can't be opened, or a statement failed.
        """

    def needs_tidying(self) -> bool:
        """Return whether ``Connection.tidy`` is due."""

    async def close(self) -> None:
        """Close the store. ``connect`` still works, for the last ``tidy``."""

    def cut(self) -> None:
        """Abort the statements that still wait for the store."""
