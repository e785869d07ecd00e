"""What one commit writes: what sessions were asked and answered, and how their rows change."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from openenv.core.env_server.records import Taken

Note: TypeAlias = tuple[int, int, str, Taken, int]
"""Number of a session, of its request, the request's type and data, and the length of the answer, below 0 of an error.

The answer is its data alone; of an error, the whole message.
"""

Change: TypeAlias = tuple[str, dict[str, Any]]
"""A statement, and its parameters without ``batch``, the number of the batch."""

# Whatever of these is executed twice, since nobody heard that it was committed, does the same as once.
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

# What is kept even of what is forgotten, no more than the server has places: a session that has its row can be rebuilt
# from its next reset on.
_KEPT = (ADD_SESSION, ADD_CHILD, END)


@dataclass(slots=True)
class Batch:
    """What one commit writes.

    Attributes:
        sequence: Its number among those of the run.
        notes: Requests, as JSON of a list of ``Note``.
        answers: Their answers, one right after the other.
        changes: How rows of sessions change.
        at: When it was made, in the journal's time.
    """

    sequence: int
    notes: bytes
    answers: str
    changes: list[Change]
    at: float

    @classmethod
    def of(cls, sequence: int, notes: list[Note], answers: list[str], changes: list[Change], at: float) -> "Batch":
        """Make a batch of what was gathered."""
        return cls(sequence, to_json(notes, inf_nan_mode="constants"), "".join(answers), changes, at)

    @property
    def size(self) -> int:
        """Characters that it has."""
        return len(self.notes) + len(self.answers) + size_of(self.changes)

    def sessions(self) -> frozenset[int]:
        """Return the numbers of the sessions whose requests it has, or of which something changes with it."""
        return frozenset(note[0] for note in from_json(self.notes)) | {values["number"] for _, values in self.changes}

    def drop(self, sessions: Collection[int]) -> frozenset[int]:
        """Leave out what sessions did.

        Args:
            sessions: Their numbers.

        Returns:
            The numbers of the sessions that were to continue one of them, which are left out too.
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


def size_of(changes: list[Change]) -> int:
    """Characters of what changes say."""
    return sum(len(value) for _, values in changes for value in values.values() if isinstance(value, str | bytes))


def unforgettable(changes: list[Change]) -> list[Change]:
    """Of changes that can't be written, return those to keep: that a session has come, or has gone, but not of both."""
    kept = {(statement, values["number"]): values for statement, values in changes if statement in _KEPT}
    came_and_went = {number for statement, number in kept if statement != END and (END, number) in kept}
    return [(how, values) for (how, number), values in kept.items() if number not in came_and_went]
