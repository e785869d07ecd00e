"""Where a journal is kept: what the file and the database have in common.

Both have the same four tables (``sqlite.py`` describes them) and understand the same statements, which name their
parameters as ``:name``. What is written while answers wait for it goes through ``Store.write``, on the event loop;
whatever else is asked of the tables goes through a ``Connection``, in some thread.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from openenv.core.env_server.journal.batch import Batch


class Rows(Protocol):
    """What a statement has given."""

    @property
    def rowcount(self) -> int:
        """How many rows it has changed."""

    def fetchone(self) -> Any:
        """Return the next row, a tuple; ``None`` after the last one."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""


class Connection(Protocol):
    """A connection to the tables, for one thread.

    Attributes:
        piece: Batches that are to be deleted in one go.
    """

    piece: int

    def execute(self, statement: str, values: Mapping[str, Any] = ..., /) -> Rows:
        """Execute a statement with named parameters."""

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Execute a query whose rows together may be more than fit into memory."""

    def reading(self) -> AbstractContextManager[Any]:
        """Read everything as it was at one moment."""

    def changing(self) -> AbstractContextManager[Any]:
        """Make changes that take place together, or not at all where something is raised."""

    def hold_back(self, runs: Iterable[int]) -> None:
        """Keep some runs from committing for as long as the changes take, and wait for what they commit just now.

        Args:
            runs: Their numbers, in ascending order: two that hold back the same runs could else wait for one another.
        """

    def leads(self) -> bool:
        """Whether to look after the tables now, rather than leave it to others."""

    def used_bytes(self) -> int:
        """Bytes that what is on record takes."""

    def delete_batches(self, numbers: list[int]) -> None:
        """Delete batches, by their numbers."""

    def tidy(self) -> None:
        """Do what the store needs from time to time beside the removal of rows."""


class Store(Protocol):
    """Where a journal is kept. What its library raises it turns into a ``JournalError`` with the library's words.

    Attributes:
        name: What messages call it; no secrets are in it.
        writes_at_once: Whether ``write`` never gives way to other tasks.
        prune_every_s: How often to look for what can be removed.
    """

    name: str
    writes_at_once: bool
    prune_every_s: float

    async def start(self) -> int:
        """Get ready to write; also after ``close``. What has gone since it was last open is made anew.

        Returns:
            The number of a new run, which nobody else has.

        Raises:
            JournalError: The store can't be opened any more, or holds something else now.
        """

    async def is_in_place(self) -> bool:
        """Whether what is written now can be found where the journal is, and that was not removed or replaced.

        Raises:
            JournalError: That can't be found out just now.
        """

    async def write(self, batch: Batch) -> frozenset[int]:
        """Write a batch, unless others have taken up sessions of this run that it does not know of.

        A batch that failed may be written all the same; it is tried again as it is, and is not written twice.

        Returns:
            The numbers of those sessions; nothing was written then.

        Raises:
            JournalError: It can't be written just now.
        """

    async def newly_taken(self) -> frozenset[int]:
        """Return the sessions of this run that others have taken up since it was last asked, or wrote.

        Raises:
            JournalError: That can't be read just now.
        """

    def set_patient(self, *, is_patient: bool) -> None:
        """Say whether ``write`` may wait for what stands in its way; it should not, once that was in vain."""

    def connect(self) -> AbstractContextManager[Connection]:
        """Open a connection for this thread.

        Raises:
            JournalError: The store can't be opened, or something that was asked of it failed.
        """

    def needs_tidying(self) -> bool:
        """Whether it is time for ``Connection.tidy``."""

    async def close(self) -> None:
        """Let go of it. ``connect`` still works, for the last ``tidy``."""

    def cut(self) -> None:
        """End whatever still waits for it."""
