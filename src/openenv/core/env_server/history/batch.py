"""Batches of the journal: the requests, answers and changed rows of one commit."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from openenv.core.env_server.history.entries import KeptData

Note: TypeAlias = tuple[int, int, str, KeptData, int]
"""Number of a session, number, type and data of its request, and length of the answer, negative for an error.

The answer is only its data; of an error, the whole message.
"""

Change: TypeAlias = tuple[str, dict[str, Any]]
"""Statement and its parameters, without ``batch``, the number of the batch."""

# These statements are idempotent: a commit whose confirmation was lost is executed again.
ADD_SESSION = """
INSERT INTO session (number, id, added, opened_at, token, environment, first_id, start, since, batch, owner)
VALUES (:number, :id, :batch, :now, :token, :environment, 1, :number, :since, :batch, :run)
ON CONFLICT (number) DO NOTHING
"""
ADD_CHILD = """
INSERT INTO session (number, id, added, opened_at, token, environment, first_id, parent, parent_last_id,
    start, since, batch, snapshot, position, owner)
SELECT :number, :id, :batch, :now, :token, :environment, :first_id, :parent, :parent_last_id,
    start, since, batch, snapshot, position, :run FROM session WHERE number = :parent
ON CONFLICT (number) DO NOTHING
"""
START_WITH_RESET = """
UPDATE session SET start = :number, since = :request, batch = :batch, snapshot = NULL, position = NULL
WHERE number = :number
"""
START_WITH_SNAPSHOT = """
UPDATE session SET start = :number, since = :request, batch = :batch, snapshot = :snapshot, position = :position
WHERE number = :number
"""
END = "UPDATE session SET ended = :why, last_batch = :batch WHERE number = :number AND ended IS NULL"


@dataclass(slots=True)
class Batch:
    """Batch of one commit.

    Attributes:
        sequence: Number of the batch within its run.
        notes: Requests, as JSON of a list of ``Note``.
        answers: Answers to the requests, concatenated.
        changes: Changes of the sessions' rows.
        at: When the batch was created, in the journal's time.
    """

    sequence: int
    notes: bytes
    answers: str
    changes: list[Change]
    at: float

    @classmethod
    def of(cls, sequence: int, notes: list[Note], answers: list[str], changes: list[Change], at: float) -> "Batch":
        """Create a batch, with the notes in JSON."""
        return cls(sequence, to_json(notes, inf_nan_mode="constants"), "".join(answers), changes, at)

    @property
    def size(self) -> int:
        """Size of the batch, in characters."""
        changed = (value for _, values in self.changes for value in values.values() if isinstance(value, str | bytes))
        return len(self.notes) + len(self.answers) + sum(map(len, changed))

    def drop(self, sessions: Collection[int]) -> frozenset[int]:
        """Remove sessions from the batch.

        Args:
            sessions: Numbers of the sessions.

        Returns:
            The numbers of the sessions forked from the removed sessions, which are removed too.
        """
        children = frozenset(values["number"] for _, values in self.changes if values.get("parent") in sessions)
        dropped = children.union(sessions)
        begin, notes, answers = 0, [], []
        for note in from_json(self.notes):
            length = abs(note[-1])
            if note[0] not in dropped:
                notes.append(note)
                answers.append(self.answers[begin : begin + length])
            begin += length
        self.notes, self.answers = to_json(notes, inf_nan_mode="constants"), "".join(answers)
        self.changes = [(how, values) for how, values in self.changes if values["number"] not in dropped]
        return children
