"""How many sessions a server has room for, counted in one process or over all of its workers."""

import fcntl
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

_COUNT_BYTES = 4


class Places:
    """The places of a server that is one process.

    Args:
        limit: Places that there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken = 0

    @property
    def taken(self) -> int:
        """Places that are taken now."""
        return self._taken

    def take(self, count: int = 1) -> bool:
        """Take so many places; ``False``, and none is taken, where there are not so many."""
        if self._taken + count > self.limit:
            return False
        self._taken += count
        return True

    def give_back(self, count: int = 1) -> None:
        """Give so many places back."""
        self._taken -= count


class SharedCounts:
    """How many places each worker has taken, in memory that all processes of a server share.

    Each worker writes its own count only; its supervisor clears the count of one that has died. The lock around reading
    all counts and raising one is the kernel's, which releases it when its holder dies. It is a POSIX record lock,
    because these belong to one process alone: a child that a worker forks doesn't keep it held.

    Args:
        descriptor: The file behind the memory; it stays the caller's to close.
        workers: How many counts there are.
    """

    def __init__(self, descriptor: int, workers: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, workers * _COUNT_BYTES)
        self._counts = memoryview(self._memory).cast("I")

    @classmethod
    @contextmanager
    def create(cls, workers: int) -> Iterator[Self]:
        """Make counts of 0, for the length of a block."""
        with tempfile.TemporaryFile(prefix="openenv-places-") as file:
            # Written and not only made this long: memory over a hole faults where the disk is full.
            file.write(bytes(workers * _COUNT_BYTES))
            file.flush()
            counts = cls(file.fileno(), workers)
            try:
                yield counts
            finally:
                counts.close()

    def __getitem__(self, worker: int) -> int:
        """Places that a worker has taken."""
        return self._counts[worker]

    def total(self) -> int:
        """Places that all workers have taken."""
        return sum(self._counts)

    def take(self, worker: int, limit: int, count: int = 1) -> bool:
        """Take so many places for a worker, unless all workers together would have more than ``limit``."""
        with self.locked():
            if self.total() + count > limit:
                return False
            self._counts[worker] += count
            return True

    def give_back(self, worker: int, count: int = 1) -> None:
        """Give so many of a worker's places back."""
        self._counts[worker] -= count

    def clear(self, worker: int) -> None:
        """Give back all that a worker which has died had taken."""
        self._counts[worker] = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from taking a place."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the memory."""
        self._counts.release()
        self._memory.close()


class WorkerPlaces(Places):
    """The places of a server with several workers, as one of these takes them.

    Args:
        limit: Places that the whole server has.
        counts: What the workers have taken.
        worker: The number of this one, from 0.
    """

    def __init__(self, limit: int, counts: SharedCounts, worker: int) -> None:
        super().__init__(limit)
        self._counts = counts
        self._worker = worker

    @property
    def taken(self) -> int:
        """Places that all workers have taken."""
        # Capped: a worker may give a place back, and another take it, while the counts are being added up.
        return min(self._counts.total(), self.limit)

    def take(self, count: int = 1) -> bool:
        """Take so many places; ``False``, and none is taken, where the workers together have left fewer."""
        return self._counts.take(self._worker, self.limit, count)

    def give_back(self, count: int = 1) -> None:
        """Give so many places back."""
        self._counts.give_back(self._worker, count)
