"""What a session was asked since its episode can be begun anew, and how it answered: what a replay needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from pydantic_core import from_json, to_json

from openenv.core.env_server.protocol import V1Request, encode_v1
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import SessionLostError

REFUSED = "refused"
"""The type under which a message is on record that made no request, though it used up a number."""

LOST = "lost"
"""The type under which a request is on record that can't be repeated, because its data could not be written down."""

Data: TypeAlias = dict[str, Any] | None
"""What a request says."""

Taken: TypeAlias = Data | bytes
"""What a request said before it was carried out, perhaps as JSON; ``None`` where that can't be written down."""

# The types of answers that are not those of their requests.
_ANSWER_TYPES = {"reset": "observation", "step": "observation", "render": "picture"}

# What a session without a journal remembers: requests, and bytes of what they say.
_MOST_REQUESTS = 1024
_MOST_BYTES = 1024 * 1024


class Recorded(NamedTuple):
    """A request on record.

    Attributes:
        request: The request.
        answer: The answer's data, or its ``hash`` where the text was not kept; of an error, the whole message.
        failed: Whether the answer was an error.
    """

    request: V1Request
    answer: str | int
    failed: bool = False


class Position(NamedTuple):
    """Where a session's episode stands: what a snapshot of the environment does not know.

    Attributes:
        phase: The value of a ``Phase``.
        episodes: Resets.
        step_count: Steps since the last reset.
        earlier_steps: Steps before it.
        reward: Rewards since the last reset, added up.
    """

    phase: str
    episodes: int
    step_count: int
    earlier_steps: int
    reward: float


@dataclass(frozen=True)
class History:
    """How to bring a new environment to where a session stands.

    Attributes:
        requests: What to repeat, in order.
        snapshot: What to begin with; ``None`` begins with the first request, a reset if there was any.
        position: Where the episode stood at the snapshot.
    """

    requests: Sequence[Recorded]
    snapshot: Snapshot | None = None
    position: Position | None = None


class Record(Protocol):
    """Takes down what a session is asked and answers."""

    @property
    def recoverable(self) -> bool | None:
        """Whether the session could be rebuilt if the server's process ended now; ``None`` without any journal."""

    def takes(self, request: V1Request) -> Taken:
        """Write down what carrying out the request might change, which is what ``note`` wants to have then."""

    def note(self, request: V1Request, taken: Taken, answer: str) -> None:
        """Take down a request that has been carried out, with its answer's data."""

    def note_error(self, request: V1Request, taken: Taken, message: str) -> None:
        """Take down a request that was answered with an error.

        A reset that failed begins nothing anew, since nobody knows what it did: a replay repeats it after what came
        before. If it named a seed, resets after it may draw from that one.
        """

    def wants_snapshot(self, last_id: int) -> bool:
        """Whether now, after the request of this number, is the time to take a snapshot."""

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """Take down a snapshot, after the request of this number and its answer."""

    async def history(self) -> History:
        """Return what a replay needs.

        Raises:
            SessionLostError: It is not on record, and why.
        """

    def ended(self, why: str) -> None:
        """Take down that the session has ended."""


def restarts(request: V1Request, seeded: bool) -> bool:
    """Whether a replay can begin with a request: a reset that names a seed or, until there was one, any reset.

    Args:
        request: The request, which did not fail.
        seeded: Whether a reset before it has named a seed, from which the environment may still draw.
    """
    return request.type == "reset" and (not seeded or names_seed(request))


def names_seed(request: V1Request) -> bool:
    """Whether a request is a reset that names a seed."""
    return request.type == "reset" and request.data.get("seed") is not None


class MemoryRecord:
    """The last requests of a session that no journal keeps.

    Of their data it holds JSON and of their answers hashes, because every step pays for it and few sessions are ever
    forked. Errors it holds as they are, and answers to agents, which may be errors: a replay has to know a timeout when
    it meets one.

    Args:
        parent: The record of the session that this one was forked from.
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
                Recorded(V1Request(kind, from_json(data), number, session), answer, failed)
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


def answer_message(recorded: Recorded) -> str:
    """Write the message that a request was answered with, of which the whole text was kept."""
    request, answer, failed = recorded
    text = f"{answer}"
    kind = _ANSWER_TYPES.get(request.type, request.type)
    return text if failed else encode_v1(kind, text, request.id, request.session)
