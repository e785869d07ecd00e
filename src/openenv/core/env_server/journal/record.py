"""One session's part of a journal."""

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from openenv.core.env_server.journal.batch import START_WITH_RESET, START_WITH_SNAPSHOT
from openenv.core.env_server.protocol import V1Request
from openenv.core.env_server.records import LOST, Data, History, Position, Taken, names_seed, restarts
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import JournalError, SessionLostError

if TYPE_CHECKING:
    from openenv.core.env_server.journal.journal import Journal

# A snapshot is taken after a reset, and then after so many requests or seconds, because that many would have to be
# repeated. An environment of some microseconds per step then spends a few percent on snapshots of some microseconds.
_SNAPSHOT_EVERY = 128
_SNAPSHOT_EVERY_S = 5.0

# What the answer to an agent has in it where the environment ran into its timeout.
_TIMEOUT = '"code":"TIMEOUT"'

# Types of values that an environment can't change under the hands of whoever notes them later.
_UNCHANGEABLE = frozenset((str, int, float, bool, type(None)))


class JournalRecord:
    """Takes down what one session is asked and answers; see ``Record``.

    Args:
        journal: Where.
        number: Number of the session.
        seeded: Whether a reset before has named a seed.

    Attributes:
        number: Number of the session.
        seeded: Whether a reset has named a seed.
        recoverable: Whether what the session needs to be rebuilt is on record, or is about to be.
    """

    __slots__ = (
        "_add_answer",
        "_add_note",
        "_failed_id",
        "_journal",
        "_snapshot_due",
        "_snapshot_id",
        "number",
        "recoverable",
        "seeded",
    )

    def __init__(self, journal: "Journal", number: int, *, seeded: bool) -> None:
        self.number = number
        self.seeded = seeded
        self.recoverable = True
        self._journal = journal
        self._add_note = journal.notes.append
        self._add_answer = journal.answers.append
        self._failed_id = 0
        self._snapshot_id = 0
        self._snapshot_due = 0.0  # an agent's first call begins an episode without any reset, see _note_reset

    def lose_beginning(self) -> None:
        """Learn that what the session needs to be rebuilt is not on record any more; a snapshot is wanted soon."""
        self.recoverable = False
        self._snapshot_due = 0.0

    def takes(self, request: V1Request) -> Data:
        """See ``Record``."""
        data = request.data
        return dict(data) if _UNCHANGEABLE.issuperset(map(type, data.values())) else _copied(data)

    def note(self, request: V1Request, taken: Taken, answer: str) -> None:
        """See ``Record``."""
        kind = request.type
        if kind == "reset":
            self._note_reset(request)
        elif kind == "mcp" and _TIMEOUT in answer:
            self._failed_id = request.id
        self._add_note((self.number, request.id, kind if taken is not None else LOST, taken, len(answer)))
        self._add_answer(answer)

    def note_error(self, request: V1Request, taken: Taken, message: str) -> None:
        """See ``Record``."""
        self.seeded = self.seeded or names_seed(request)
        self._failed_id = request.id
        kind = request.type if taken is not None else LOST
        self._add_note((self.number, request.id, kind, taken, -len(message)))
        self._add_answer(message)

    def wants_snapshot(self, last_id: int) -> bool:
        """See ``Record``."""
        if last_id == self._failed_id:  # the environment may still be at it, or be gone
            return False
        if not self.recoverable:  # which one that can't be written now does not change
            return last_id > 0 and not self._journal.metrics.journal_failing
        since = last_id - self._snapshot_id
        return since >= _SNAPSHOT_EVERY or (since > 0 and time.monotonic() >= self._snapshot_due)

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """See ``Record``."""
        self.recoverable = True
        self._snapshot_id = request_id
        self._snapshot_due = time.monotonic() + _SNAPSHOT_EVERY_S
        self._journal.change(
            START_WITH_SNAPSHOT,
            self.number,
            request=request_id,
            snapshot=snapshot.to_bytes(),
            position=json.dumps([*position, answer]),
        )
        self._journal.commit_soon()

    async def history(self) -> History:
        """See ``Record``."""
        if not await self._journal.commit():
            raise JournalError(f"The journal {self._journal.name} can't be written just now.")
        row = await self._journal.find(self.number)
        if row is None:
            raise SessionLostError("it is not in the journal any more.")
        return (await self._journal.tell(row)).history

    def ended(self, why: str) -> None:
        """See ``Record``."""
        self._journal.end(self.number, why)

    def _note_reset(self, request: V1Request) -> None:
        if restarts(request, self.seeded):
            self._journal.change(START_WITH_RESET, self.number, request=request.id)
            self.recoverable = True
            self.seeded = names_seed(request)
        self._snapshot_due = 0.0  # the episode may be a random one, seed or not, which only a snapshot can rebuild


def _copied(data: dict[str, Any]) -> Data:
    """Copy what a request says, since the environment may change it; ``None`` where it is nested too deep for JSON."""
    try:
        copy: Data = from_json(to_json([[data]], inf_nan_mode="constants"))[0][0]
    except ValueError:
        return None
    return copy


def hashed(token: str) -> bytes:
    """Return the form in which a token is on record."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
