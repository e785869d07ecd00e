"""Entries of a session's history: the requests and answers that a replay needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.wire.messages import Answer, MessageType, V1Request
from openenv.core.wire.v1 import encode_answer

REFUSED = "refused"
"""Type in the record of a message that was no valid request, but used a request's number."""

LOST = "lost"
"""Type in the record of a request that can't be replayed, because its data could not be encoded."""

Data: TypeAlias = dict[str, Any] | None
"""Data of a request."""

KeptData: TypeAlias = Data | bytes
"""Data of a request before it was carried out, perhaps as JSON; ``None`` where the data can't be encoded."""

# Types of answers that differ from their requests' types.
_ANSWER_TYPES: dict[str, str] = {
    MessageType.RESET: MessageType.OBSERVATION,
    MessageType.STEP: MessageType.OBSERVATION,
    MessageType.RENDER: MessageType.PICTURE,
}


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


class Checkpoint(NamedTuple):
    """Where a session can go on from without a replay of what came before.

    Attributes:
        snapshot: Snapshot of the environment.
        position: Position in the episode at the snapshot.
    """

    snapshot: Snapshot
    position: Position


@dataclass(frozen=True)
class History:
    """History of a session, which brings a new environment to the session's state.

    Attributes:
        entries: Requests to replay with their answers, in order.
        checkpoint: Checkpoint to restore first; ``None`` starts with the first entry, a reset if there was any.
        last_id: Number of the last request; 0 without any request.
        last_type: Type of the last request; ``None`` where only the answer is on record.
        last_answer: Answer to the last request, a whole message.
    """

    entries: Sequence[HistoryEntry]
    checkpoint: Checkpoint | None = None
    last_id: int = 0
    last_type: str | None = None
    last_answer: str | None = None


def restarts(request: V1Request, seeded: bool) -> bool:
    """Return whether a replay can start with a request: a reset with a seed or, before any seed, any reset.

    Args:
        request: The request, which did not fail.
        seeded: Whether an earlier reset has named a seed, from which the environment may still draw.
    """
    return request.type == MessageType.RESET and (not seeded or names_seed(request))


def names_seed(request: V1Request) -> bool:
    """Return whether a request is a reset that names a seed."""
    return request.type == MessageType.RESET and request.data.get("seed") is not None


def answer_message(recorded: HistoryEntry) -> str:
    """Return the message of an answer whose whole text was kept."""
    request, answer, failed = recorded
    text = f"{answer}"
    kind = _ANSWER_TYPES.get(request.type, request.type)
    return text if failed else encode_answer(Answer(kind, text, request.id, request.session))
