"""Entries of a session's history: the requests and answers that a replay needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from pydantic_core import from_json, to_json

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.messages import V1Request
from openenv.core.wire.v1 import encode_v1

REFUSED = "refused"
"""Type in the record of a message that was no valid request, but used a request's number."""

LOST = "lost"
"""Type in the record of a request that can't be replayed, because its data could not be encoded."""

Data: TypeAlias = dict[str, Any] | None
"""Data of a request."""

Taken: TypeAlias = Data | bytes
"""Data of a request before it was carried out, perhaps as JSON; ``None`` where the data can't be encoded."""

# Types of answers that differ from their requests' types.
_ANSWER_TYPES = {"reset": "observation", "step": "observation", "render": "picture"}

# Limits of the memory of a session without a journal: requests, and bytes of their data.
_MOST_REQUESTS = 1024
_MOST_BYTES = 1024 * 1024


class HistoryEntry(NamedTuple):
    """Recorded request and its answer.

    Attributes:
        request: The request.
        answer: The answer's data, or the data's ``hash`` where the text was not kept; of an error, the whole message.
        failed: Whether the answer was an error.
    """

    request: V1Request
    answer: str | int
    failed: bool = False


class Position(NamedTuple):
    """Position in a session's episode, which a snapshot of the environment does not contain.

    Attributes:
        phase: Value of a ``Phase``.
        episodes: Number of resets.
        step_count: Steps since the last reset.
        earlier_steps: Steps before the last reset.
        reward: Sum of the rewards since the last reset.
    """

    phase: str
    episodes: int
    step_count: int
    earlier_steps: int
    reward: float


@dataclass(frozen=True)
class History:
    """History of a session, which brings a new environment to the session's state.

    Attributes:
        requests: Requests to replay, in order.
        snapshot: Snapshot to restore first; ``None`` starts with the first request, a reset if there was any.
        position: Position in the episode at the snapshot.
    """

    requests: Sequence[HistoryEntry]
    snapshot: Snapshot | None = None
    position: Position | None = None


class Record(Protocol):
    """Record of a session's requests and answers."""

    @property
    def recoverable(self) -> bool | None:
        """Whether the session could be rebuilt if the server's process ended now; ``None`` without a journal."""

    def takes(self, request: V1Request) -> Taken:
        """Return a request's data, for ``note``, before the environment may change it."""

    def note(self, request: V1Request, taken: Taken, answer: str) -> None:
        """Record a request that has been carried out, with its answer's data."""

    def note_error(self, request: V1Request, taken: Taken, message: str) -> None:
        """Record a request that was answered with an error.

        A replay can't start with a failed reset, whose effect is unknown: the reset is repeated after the requests
        before it. If the failed reset named a seed, later resets may draw from that seed.
        """

    def wants_snapshot(self, last_id: int) -> bool:
        """Return whether a snapshot is due now, after the request of this number."""

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """Record a snapshot, after the request of this number and its answer."""

    async def history(self) -> History:
        """Return the history that a replay needs.

        Raises:
            SessionLostError: The history is not on record.
        """

    def ended(self, why: str) -> None:
        """Record the end of the session."""


def restarts(request: V1Request, seeded: bool) -> bool:
    """Return whether a replay can start with a request: a reset with a seed or, before any seed, any reset.

    Args:
        request: The request, which did not fail.
        seeded: Whether an earlier reset has named a seed, from which the environment may still draw.
    """
    return request.type == "reset" and (not seeded or names_seed(request))


def names_seed(request: V1Request) -> bool:
    """Return whether a request is a reset that names a seed."""
    return request.type == "reset" and request.data.get("seed") is not None


class MemoryRecord:
    """Record of the last requests of a session without a journal.

    Data is kept as JSON and answers as hashes, because every step pays for the record and few sessions are forked.
    Errors, and answers to agents, which may be errors, are kept as text: a replay has to recognise a timeout.

    Args:
        parent: Record of the session that this session was forked from.
        recoverable: See ``Record``.
    """

    __slots__ = ("_bytes", "_overflowed", "_requests", "_seeded", "recoverable")

    def __init__(self, parent: "MemoryRecord | None" = None, *, recoverable: bool | None = None) -> None:
        self.recoverable = recoverable
        self._requests: list[tuple[str, bytes, int, str, str | int, bool]] = []
        self._bytes = 0
        self._overflowed = False
        self._seeded = False
        if parent is not None:
            self._requests.extend(parent._requests)
            self._bytes = parent._bytes
            self._overflowed = parent._overflowed
            self._seeded = parent._seeded
            self.recoverable = parent.recoverable

    def takes(self, request: V1Request) -> bytes | None:
        """See ``Record``."""
        if self._overflowed and request.type != "reset":
            return b"{}"
        try:
            return to_json(request.data, inf_nan_mode="constants")
        except ValueError:
            return None

    def note(self, request: V1Request, taken: Taken, answer: str) -> None:
        """See ``Record``."""
        if request.type == "reset" and restarts(request, self._seeded):
            self._forget()
            self._overflowed = False
            self._seeded = names_seed(request)
        self._keep(request, taken, answer if request.type == "mcp" else hash(answer), failed=False)

    def note_error(self, request: V1Request, taken: Taken, message: str) -> None:
        """See ``Record``."""
        if request.type == REFUSED:
            return
        self._seeded = self._seeded or names_seed(request)
        self._keep(request, taken, message, failed=True)

    def wants_snapshot(self, last_id: int) -> bool:
        """See ``Record``."""
        return False

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """See ``Record``."""

    async def history(self) -> History:
        """See ``Record``."""
        if self._overflowed:
            raise SessionLostError(
                f"more than {_MOST_REQUESTS} requests, or {_MOST_BYTES} bytes of them, came since the reset that it "
                "would have to be replayed from; a server with a journal keeps them all."
            )
        return History(
            [
                HistoryEntry(V1Request(kind, from_json(data), number, session), answer, failed)
                for kind, data, number, session, answer, failed in self._requests
            ]
        )

    def ended(self, why: str) -> None:
        """See ``Record``."""

    def _keep(self, request: V1Request, taken: Taken, answer: str | int, *, failed: bool) -> None:
        if self._overflowed:
            return
        kind, data = (request.type, taken) if isinstance(taken, bytes) else (LOST, b"{}")
        self._bytes += len(data) + (len(answer) if isinstance(answer, str) else 0)
        if len(self._requests) == _MOST_REQUESTS or self._bytes > _MOST_BYTES:
            self._forget()
            self._overflowed = True
            return
        self._requests.append((kind, data, request.id, request.session, answer, failed))

    def _forget(self) -> None:
        self._requests.clear()
        self._bytes = 0


def answer_message(recorded: HistoryEntry) -> str:
    """Return the message of an answer whose whole text was kept."""
    request, answer, failed = recorded
    text = f"{answer}"
    kind = _ANSWER_TYPES.get(request.type, request.type)
    return text if failed else encode_v1(kind, text, request.id, request.session)
