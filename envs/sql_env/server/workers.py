"""Processes that run queries, shared by all sessions of a server."""

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import LifoQueue
from select import POLLIN, poll
from typing import Any

from openenv.core.exceptions import ConfigurationError, IllegalActionError

from .worker import read_message, write_message

MAX_SECONDS = 10.0
"""After these a process is ended. The steps that a query may take are over far sooner; this is for what counts none."""

_PROGRAM = Path(__file__).with_name("worker.py")

Value = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Result of a query.

    Attributes:
        columns: Names of the columns.
        rows: A list of values for each row.
        truncated: Whether rows, or the ends of long texts, were left out.
    """

    columns: list[str]
    rows: list[list[Value]]
    truncated: bool


class QueryFailedError(Exception):
    """SQLite did not run a query, or not to its end; the message is for who sent it."""


class Worker:
    """One process that runs queries, one after another.

    Args:
        max_seconds: How long a request may take.
    """

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        # None of the server's secrets; Python itself may need the path.
        variables = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        self.process = subprocess.Popen(  # noqa: S603  # a program of ours
            [sys.executable, "-I", "-S", "-B", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"TZ": "UTC", **variables},
            cwd="/",
        )
        assert self.process.stdout is not None
        self._answers = poll()
        self._answers.register(self.process.stdout, POLLIN)

    def ask(self, request: dict[str, Any], image: bytes) -> tuple[dict[str, Any], bytes] | None:
        """Have a request answered.

        Args:
            request: The request, as ``worker.answer`` takes it.
            image: The database's image.

        Returns:
            The answer; ``None`` where the process has ended, or takes too long.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            write_message(self.process.stdin, request, image)
            ready = self._answers.poll(self._max_seconds * 1000)
            return read_message(self.process.stdout) if ready else None
        except (BrokenPipeError, ValueError):  # it ended before it had read, or written, the whole of a message
            return None

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it had not read yet
                pipe.close()


class Workers:
    """Some workers, started when they are needed; a request waits until one of them is free.

    Args:
        count: Number of workers.
        max_seconds: Seconds that a request may take.
    """

    def __init__(self, count: int, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._idle: LifoQueue[Worker | None] = LifoQueue()
        for _ in range(count):
            self._idle.put(None)

    def query(self, database: bytes | Path, sql: str, max_rows: int) -> Table:
        """Run a query.

        Args:
            database: An image of a database, or its file.
            sql: One statement that reads.
            max_rows: How many rows to give at most.

        Raises:
            IllegalActionError: It is not one statement that reads, and was not run.
            QueryFailedError: SQLite did not run it, or not to its end.
        """
        path, image = (str(database), b"") if isinstance(database, Path) else (None, database)
        answer, _ = self._ask({"path": path, "sql": sql, "max_rows": max_rows}, image)
        if "refused" in answer:
            raise IllegalActionError(answer["refused"])
        if "failed" in answer:
            raise QueryFailedError(answer["failed"])
        return Table(**answer)

    def build(self, script: str) -> bytes:
        """Make the image of a database.

        Args:
            script: The statements that make its tables and fill them.

        Raises:
            ConfigurationError: It does something else, or fails.
        """
        answer, image = self._ask({"script": script}, b"")
        if answer:
            raise ConfigurationError(f"The script makes no database. {' '.join(answer.values())}")
        return image

    def close(self) -> None:
        """End the free workers; later requests get new ones."""
        for worker in [self._idle.get() for _ in range(self._idle.qsize())]:
            if worker is not None:
                worker.end()
            self._idle.put(None)

    def _ask(self, request: dict[str, Any], image: bytes) -> tuple[dict[str, Any], bytes]:
        worker = self._idle.get()
        answer = None
        try:
            worker = worker or Worker(self._max_seconds)
            answer = worker.ask(request, image)
        finally:
            if answer is None and worker is not None:  # it, or whoever asked, was interrupted
                worker.end()
                worker = None
            self._idle.put(worker)
        if answer is None:
            return {"failed": f"It was ended, with its process: it took more than {self._max_seconds:g} s."}, b""
        return answer


def shared_workers() -> Workers:
    """Return the workers of this process, which end with it, however it ends."""
    return _workers_of(os.getpid())  # those of a process that this one was forked from are not to be shared


@cache
def _workers_of(process: int) -> Workers:
    workers = Workers(min(4, os.cpu_count() or 1))
    atexit.register(_close, workers, process)
    return workers


def _close(workers: Workers, process: int) -> None:
    if process == os.getpid():
        workers.close()
