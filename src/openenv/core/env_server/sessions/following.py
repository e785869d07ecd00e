"""Following of a session: its entries as they come, for those who watch.

A followed session records into a ``FollowedTrace``, which puts each entry into a ``SessionFeed``, from which followers
read, and passes everything on to the trace that the session has anyway, if any. A session that is not followed has
neither, and its steps cost nothing more.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from pydantic import BaseModel
from pydantic_core import to_json

from openenv.core.env_server.sessions.episode import Episode
from openenv.core.env_server.traces import SessionTrace
from openenv.core.env_server.traces.encoding import Sent, copy_of, line_of
from openenv.core.exceptions import RequestError
from openenv.core.wire.answers import written_outcome
from openenv.core.wire.arrays import ArrayWriter, nested
from openenv.core.wire.errors import error_data, error_json
from openenv.core.wire.results import Outcome

# Limits of a feed: a follower of 60 steps a second may be a minute behind, and a feed of large pictures stays small.
_MOST_ENTRIES = 4096
_MOST_WRITTEN = 256
MOST_CHARACTERS = 8 * 1024 * 1024
"""Limit on the characters of the entries that a feed keeps."""


class Trace(Protocol):
    """What a session records its resets and steps in; see ``SessionTrace``."""

    def request(self, kind: str, data: Mapping[str, Any] | BaseModel, sent: Sent | None) -> None:
        """Record a request that is about to be carried out."""

    def forget_request(self) -> None:
        """Leave out the request under way."""

    def answer(self, outcome: Outcome, began: float, arrays: ArrayWriter | None) -> None:
        """Record the outcome of the request."""

    def failure(self, error: RequestError) -> None:
        """Record the error of the request."""

    def close(self, ending: str) -> None:
        """Record the end of the session."""


class FeedEntry(NamedTuple):
    """Entry of a feed.

    Attributes:
        episode: Number of its episode in the session.
        step: Number of its step in the episode; 0 for the reset.
        text: The entry as JSON.
    """

    episode: int
    step: int
    text: str

    @classmethod
    def of_line(cls, number: int, episode: int, step: int, total: float | None, line: str) -> "FeedEntry":
        """Return an entry.

        Args:
            number: Number of the entry in its feed; 0 for an entry from before the session was followed.
            episode: Number of its episode in the session.
            step: Number of its step in the episode.
            total: Rewards of the episode so far, added up; ``None`` where that is not known.
            line: The entry, as ``line_of`` writes it.
        """
        added_up = json_number(total)
        text = f'{{"number":{number},"episode":{episode},"step":{step},"total":{added_up},"line":{line.rstrip()}}}'
        return cls(episode, step, text)


def json_number(number: float | None) -> str:
    """Return a number as JSON: ``null`` for none, and for infinity and NaN, which JSON lacks."""
    return to_json(number, inf_nan_mode="null").decode()


class SessionFeed:
    """Last entries of a followed session, from which any number of followers read at their own pace.

    Attributes:
        id: Id of the feed, which differs for each time that the session is followed.
        followers: Number of followers.
        ending: Why the session ended; ``None`` before.
    """

    def __init__(self) -> None:
        self.id = uuid4().hex[:12]
        self.followers = 0
        self.ending: str | None = None
        self._entries: deque[FeedEntry] = deque()
        self._dropped = 0
        self._size = 0
        self._changed = asyncio.Event()
        # The last entries as they are sent, so that they are written once for all followers.
        self._written: dict[FeedEntry, str] = {}

    @property
    def last(self) -> int:
        """Number of the last entry; 0 before the first one."""
        return self._dropped + len(self._entries)

    def add(self, episode: Episode, line: str) -> None:
        """Add an entry; the oldest ones are dropped beyond the feed's limits.

        Args:
            episode: The session's episode, after the entry.
            line: The entry, as ``line_of`` writes it.
        """
        entry = FeedEntry.of_line(self.last + 1, episode.number, episode.step_count, episode.reward, line)
        self._entries.append(entry)
        self._size += len(entry.text)
        while len(self._entries) > _MOST_ENTRIES or (self._size > MOST_CHARACTERS and len(self._entries) > 1):
            self._size -= len(self._entries.popleft().text)
            self._dropped += 1
        self._changed.set()

    def end(self, ending: str) -> None:
        """Record the end of the session."""
        self.ending = ending
        self._changed.set()

    def after(self, number: int, most: int) -> tuple[list[FeedEntry], int]:
        """Return the entries after an entry.

        Args:
            number: Number of the entry.
            most: Maximum number of entries to return.

        Returns:
            The entries, and the number of those before them that were dropped already.
        """
        missed = max(0, self._dropped - number)
        start = number + missed - self._dropped
        return list(islice(self._entries, start, start + most)), missed

    def written(self, entries: Sequence[FeedEntry], write: Callable[[FeedEntry], str]) -> str:
        """Return entries as elements of a JSON list.

        Args:
            entries: The entries.
            write: Writes an entry for which no follower has done so lately.
        """
        texts = []
        for entry in entries:
            text = self._written.get(entry)
            if text is None:
                text = self._written[entry] = write(entry)
            texts.append(text)
        while len(self._written) > _MOST_WRITTEN:
            del self._written[next(iter(self._written))]
        return ",".join(texts)

    async def wait(self, number: int) -> None:
        """Wait for an entry after the entry of this number, or for the end of the session."""
        while self.last <= number and self.ending is None:
            self._changed.clear()
            await self._changed.wait()


class FollowedTrace:
    """Trace of a followed session; see ``SessionTrace``.

    Args:
        episode: The session's episode.
        feed: The feed.
        recorded: The trace that the session has anyway; ``None`` without one.
    """

    def __init__(self, episode: Episode, feed: SessionFeed, recorded: SessionTrace | None) -> None:
        self._episode = episode
        self._feed = feed
        self._recorded = recorded
        self._kind: str | None = None  # of the request under way
        self._sent = b"{}"

    def request(self, kind: str, data: Mapping[str, Any] | BaseModel, sent: Sent | None) -> None:
        """Record a request that is about to be carried out; see ``SessionTrace.request``."""
        self._kind = kind
        self._sent = sent if isinstance(sent, bytes) else copy_of(data if sent is None else sent)
        if self._recorded is not None:
            self._recorded.request(kind, data, self._sent)

    def forget_request(self) -> None:
        """Leave out the request under way, which is no part of the episode."""
        self._kind = None
        if self._recorded is not None:
            self._recorded.forget_request()

    def answer(self, outcome: Outcome, began: float, arrays: ArrayWriter | None) -> None:
        """Record the outcome of the request; see ``SessionTrace.answer``."""
        if self._recorded is not None:
            self._recorded.answer(outcome, began, arrays)
        kind = self._kind
        if kind is None:  # a request from before the session was followed
            return
        try:
            outcome.written = written = outcome.written or written_outcome(outcome, arrays)
        except RequestError as error:  # the transport meets it, too
            self.failure(error)
            return
        self._kind = None
        took_s = time.monotonic() - began
        self._feed.add(self._episode, line_of(kind, time.time(), took_s, self._sent, nested(written)))

    def failure(self, error: RequestError) -> None:
        """Record the error of the request, unless it is recorded already."""
        if self._recorded is not None:
            self._recorded.failure(error)
        kind, self._kind = self._kind, None
        if kind is not None:
            answer = error_json(error_data(error))
            self._feed.add(self._episode, line_of(kind, time.time(), 0.0, self._sent, answer, failed=True))

    def close(self, ending: str) -> None:
        """Record the end of the session."""
        if self._recorded is not None:
            self._recorded.close(ending)
        self._feed.end(ending)
