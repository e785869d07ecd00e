"""Episodes of a file of traces, their entries, and filters for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

RUNNING, INTERRUPTED = "running", "interrupted"
"""How an episode ended that has not, and one whose server died."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Episode on record, without its entries; ``TraceFile.entries`` reads those.

    Attributes:
        id: Id of the episode in its file, such as ``2-17``.
        environment: Name of the environment.
        version: Version of the environment.
        session: Public name of the session.
        transport: Transport of the client: ``v1``, ``legacy``, ``http``, ``mcp`` or ``ors``.
        started_at: When the episode began, in seconds since 1970.
        ended_at: When it ended; ``None`` if it has not, or its server died.
        episode_id: The id that its reset named.
        seed: The seed that its reset named, as text.
        split: Split of its task.
        index: Index of its task, as text.
        steps: Number of steps.
        reward: Sum of the rewards; ``None`` without any.
        ending: ``done`` or ``truncated``; ``reset`` before it was done; why its session ended before; or ``running``
            or ``interrupted``.
        error: Code of the last error of the environment; ``None`` without any.
        parent: Id of the episode that this one continues, as a fork.
    """

    id: str
    environment: str
    version: str | None
    session: str
    transport: str
    started_at: float
    ended_at: float | None
    episode_id: str | None
    seed: str | None
    split: str | None
    index: str | None
    steps: int
    reward: float | None
    ending: str
    error: str | None
    parent: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """Request of an episode and its answer.

    Attributes:
        kind: ``reset`` or ``step``.
        at: When the answer was ready, in seconds since 1970.
        took_s: Seconds from the request's turn to its answer.
        request: Arguments of the reset, or the action; ``None`` where they could not be recorded.
        answer: ``{"observation", "reward", "done"}``, with ``"metadata"`` if there was any; of an error, its
            ``message`` and ``code``.
        failed: Whether the answer is an error.
    """

    kind: str
    at: float
    took_s: float
    request: Any
    answer: Mapping[str, Any]
    failed: bool

    @classmethod
    def of_line(cls, line: bytes) -> "Entry":
        """Read an entry from its line in the file."""
        kind, at, took, failed, request, answer = from_json(line)
        return cls(kind, at / 1e6, took / 1e6, request, answer, bool(failed))

    @property
    def observation(self) -> Any:
        """The observation; ``None`` for an error."""
        return self.answer.get("observation")

    @property
    def reward(self) -> float | None:
        """The reward; ``None`` without one."""
        return self.answer.get("reward")

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.answer.get("done"))


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter for episodes: all its conditions hold.

    Attributes:
        environment: Name of the environment.
        split: Split of the task.
        index: Index of the task.
        seed: Seed of the reset.
        episode_id: Id that the reset named.
        session: Beginning of the session's public name.
        min_reward: Lowest sum of rewards.
        max_reward: Highest sum of rewards.
        since: Earliest beginning, in seconds since 1970.
        until: Latest beginning, in seconds since 1970.
        ending: How the episode ended, as in ``Episode.ending``.
        text: Text within a request or an answer.
    """

    environment: str | None = None
    split: str | None = None
    index: str | None = None
    seed: str | None = None
    episode_id: str | None = None
    session: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    since: float | None = None
    until: float | None = None
    ending: str | None = None
    text: str | None = None
