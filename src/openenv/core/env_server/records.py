"""What a session was asked since its episode can be begun anew, and how it answered: what a replay needs."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from openenv.core.env_server.protocol import V1Request, encode_v1
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import SessionLostError

REFUSED = "refused"
"""The type under which a message is on record that made no request, though it used up a number."""

LOST = "lost"
"""The type under which a request is on record that can't be repeated, because its data could not be written down."""

Data: TypeAlias = dict[str, Any] | None
"""What a request says."""

# Requests that a session without a journal remembers. Each takes about a kilobyte, with a short action.
_MOST_REQUESTS = 1024


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

    def takes(self, request: V1Request) -> Data:
        """Write down what carrying out the request might change, which is what ``note`` wants to have then."""

    def note(self, request: V1Request, taken: Data, answer: str) -> None:
        """Take down a request that has been carried out, with its answer's data."""

    def note_error(self, request: V1Request, taken: Data, message: str) -> None:
        """Take down a request that was answered with an error."""

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
        request: The request.
        seeded: Whether a reset before it has named a seed, from which the environment may still draw.
    """
    return request.type == "reset" and (not seeded or names_seed(request))


def names_seed(request: V1Request) -> bool:
    """Whether a reset names a seed."""
    return request.data.get("seed") is not None


class MemoryRecord:
    """The last requests of a session that no journal keeps.

    It holds references and hashes only, because every step pays for it and few sessions are ever forked.

    Args:
        parent: The record of the session that this one was forked from.
    """

    __slots__ = ("_requests", "_seeded")

    def __init__(self, parent: "MemoryRecord | None" = None) -> None:
        # One more than is of use, which tells that the first ones have been forgotten.
        self._requests: deque[tuple[V1Request, int]] = deque(maxlen=_MOST_REQUESTS + 1)
        self._seeded = False
        if parent is not None:
            self._requests.extend(parent._requests)
            self._seeded = parent._seeded

    def takes(self, request: V1Request) -> None:
        """See ``Record``."""

    def note(self, request: V1Request, taken: Data, answer: str) -> None:
        """See ``Record``."""
        if request.type == "reset" and restarts(request, self._seeded):
            self._requests.clear()
            self._seeded = names_seed(request)
        self._requests.append((request, hash(answer)))

    def note_error(self, request: V1Request, taken: Data, message: str) -> None:
        """See ``Record``."""
        self.note(request, taken, message)

    def wants_snapshot(self, last_id: int) -> bool:
        """See ``Record``."""
        return False

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """See ``Record``."""

    async def history(self) -> History:
        """See ``Record``."""
        if len(self._requests) > _MOST_REQUESTS:
            raise SessionLostError(
                f"more than {_MOST_REQUESTS} requests came since the reset that it would have to be replayed from; a "
                "server with a journal keeps them all."
            )
        return History([Recorded(*kept) for kept in self._requests])

    def ended(self, why: str) -> None:
        """See ``Record``."""


def answer_message(recorded: Recorded) -> str:
    """Write the message that a request was answered with, of which the whole text was kept."""
    request, answer, failed = recorded
    text = f"{answer}"
    kind = "observation" if request.type in ("reset", "step") else request.type
    return text if failed else encode_v1(kind, text, request.id, request.session)
