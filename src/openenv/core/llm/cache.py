"""Answers of language models on disk, by what was sent: one file of SQLite, for any number of processes."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, Self

from openenv.core.documents import folder_lock
from openenv.core.llm_client import LLMResponse, TokenUsage, ToolCall

__all__ = ["AnswerCache"]

# Seconds to wait for another process that writes.
_BUSY_S = 30.0


class AnswerCache:
    """Answers by content: the model and its settings, what was sent, the options. Safe for threads and processes.

    The file is opened when it is used first, and again in a process that is forked: SQLite forbids to use a connection
    in another process.

    Args:
        file: The file, which is made if it is missing.

    Raises:
        sqlite3.DatabaseError: The file is something else, or can't be written.
    """

    def __init__(self, file: str | Path) -> None:
        self._file = Path(file).absolute()
        self._lock = Lock()
        self._is_closed = False
        self._connections: dict[int, sqlite3.Connection] = {}  # by process id; those of parents stay untouched
        # The folder is locked, since two processes can't set the mode of a new file at once.
        with folder_lock(self._file.parent), closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def get(self, content: Mapping[str, Any]) -> LLMResponse | None:
        """Return the answer to a request, which cost nothing this time; ``None`` if there is none.

        Args:
            content: All that the answer depends on.
        """
        with self._lock:
            row = self._connection().execute("SELECT answer FROM answers WHERE key = ?", (_key(content),)).fetchone()
        if row is None:
            return None
        fields = json.loads(row[0])
        usage = None if fields["usage"] is None else TokenUsage(**fields["usage"])
        calls = [ToolCall(**call) for call in fields.get("tool_calls", ())]  # which no file of an earlier version has
        return LLMResponse(fields["content"], calls, usage, cost_usd=0.0)

    def put(self, content: Mapping[str, Any], answer: LLMResponse) -> None:
        """Keep the answer to a request.

        Args:
            content: All that the answer depends on.
            answer: The answer; its cost is not kept.
        """
        fields = asdict(answer)
        del fields["cost_usd"]
        written = json.dumps(fields)
        with self._lock:
            self._connection().execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (_key(content), written))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._is_closed = True
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)

    def _connection(self) -> sqlite3.Connection:
        """Return this process's connection, under the lock."""
        if self._is_closed:
            raise sqlite3.ProgrammingError(f"Expected an open cache, got {self._file}, which is closed.")
        process = os.getpid()
        if process not in self._connections:
            self._connections[process] = self._connect()
        return self._connections[process]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _key(content: Mapping[str, Any]) -> str:
    written = json.dumps(content, sort_keys=True, default=repr, ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
