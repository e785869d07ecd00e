"""Recording of sessions' episodes, called on the path of each request: it only collects; a thread does the rest."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any
from zlib import crc32

from pydantic import BaseModel

from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.traces.columns import (
    ANSWER,
    FAILED_RESET_CODE,
    FAILED_STEP_CODE,
    REQUEST,
    RESET_CODE,
    STEP_CODE,
    VALUES,
)
from openenv.core.env_server.traces.encoding import Sent, copy_of
from openenv.core.env_server.traces.store import EpisodeRow
from openenv.core.env_server.traces.writer import Hidden, Part, Retention, TraceWriter
from openenv.core.exceptions import InvalidRequestError, RequestError
from openenv.core.wire.answers import written_outcome
from openenv.core.wire.arrays import ArrayWriter
from openenv.core.wire.errors import error_data, error_json
from openenv.core.wire.results import Outcome, component_scores
from openenv.core.wire.types import Scalar

RESET, STEP = "reset", "step"

DONE, TRUNCATED, ABANDONED = "done", "truncated", "reset"
"""How an episode ended, where it was not by the end of its session."""

_MEBIBYTE = 1024 * 1024
# Each part of an episode costs the thread as much as ten entries do.
_HAND_OVER_EVERY_S = 0.25
# Size of an entry that counts as large, and of those that are handed over at once, in characters.
_LARGE = 16 * 1024
_MOST_COLLECTED = 8 * 1024 * 1024
# An error for a request whose client left before the answer was ready.
_CANCELLED = '{"message":"The request was cancelled before its answer was ready.","code":"CANCELLED"}'


class EpisodeTrace:
    """Trace of one episode, as it is being recorded.

    Args:
        row: What is known of the episode.
        offset: Seconds between ``time.monotonic`` and the time since 1970.

    Attributes:
        row: As above; its steps and its reward are those of ``counted``.
        offset: As above.
        entries: What was collected since the last ``take``, as for ``encoded_entries``.
        reward: Sum of the rewards; ``None`` before the first.
    """

    __slots__ = ("_handed_over", "_part", "_steps", "entries", "offset", "reward", "row")

    def __init__(self, row: EpisodeRow, offset: float) -> None:
        self.row = row
        self.offset = offset
        # The values of all entries in one list: of a tuple for each, the garbage collector would count and visit all.
        self.entries: list[Any] = []
        self.reward: Scalar | None = None
        self._handed_over = 0
        self._part = 0
        self._steps = 0

    def counted(self) -> EpisodeRow:
        """Return the row with the steps and the rewards so far."""
        self.row.steps = self._steps + self.entries[::VALUES].count(STEP_CODE)
        self.row.reward = self.reward
        return self.row

    def continue_from(self, original: "EpisodeTrace") -> None:
        """Record that the episode continues another one, as a fork of it."""
        row = self.row
        row.fork_of(original.counted(), original._handed_over + len(original.entries) // VALUES)
        self._steps, self.reward = row.steps, row.reward

    def end(self, ending: str) -> None:
        """Record how the episode ended."""
        self.row.ending = ending
        self.row.ended_at = time.monotonic() + self.offset

    def take(self) -> Part:
        """Return what was collected, and collect anew."""
        row = self.counted().copy()
        entries, self.entries = self.entries, []
        self._steps = row.steps
        self._handed_over += len(entries) // VALUES
        if entries:
            self._part += 1
        return Part(row, self._part, entries, self.offset)

    def end_with(self, outcome: Outcome) -> None:
        """Record how the episode ended, by its last outcome."""
        if self.row.ending not in (DONE, TRUNCATED):
            ends = outcome.metadata
            is_cut = ends.get("truncated") is True and ends.get("terminated") is not True
            self.end(TRUNCATED if is_cut else DONE)


class TraceRecorder:
    """Recorder of the episodes of a server's sessions.

    Args:
        writer: Writes the traces.
        environment: Name of the environment.
        share: Share of the episodes to record, from 0 to 1.
        named_only: Whether only episodes are recorded whose reset names an ``episode_id``.
    """

    def __init__(self, writer: TraceWriter, environment: str, share: float = 1.0, *, named_only: bool = False) -> None:
        self._writer = writer
        self._environment = environment
        self._version: str | None = None
        self._share = share
        self._named_only = named_only
        self._random = Random()  # noqa: S311  # no cryptography; and environments may seed the module's own
        self._numbers = count(1)
        self._changed: dict[int, EpisodeTrace] = {}
        self._large = 0  # size of the large entries collected
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, config: ServerConfig, environment: str, metrics: Metrics) -> "TraceRecorder | None":
        """Return the recorder of a server; ``None`` if the server keeps no traces.

        Args:
            config: The server's settings.
            environment: Name of the environment.
            metrics: Metrics to count in.
        """
        if config.traces is None:
            return None
        retention = Retention(config.traces_max_age_s, config.traces_max_size_mb * _MEBIBYTE)
        hidden = Hidden(config.secrets, config.traces_leave_out)
        writer = TraceWriter(config.traces, retention, metrics, hidden)
        return cls(writer, environment, config.traces_sample, named_only=config.traces_named_only)

    def prepare(self) -> None:
        """Check the file, and create it if it does not exist. Blocks.

        Raises:
            ConfigurationError: The file can't be used.
        """
        self._writer.prepare()

    def start(self, version: str | None) -> None:
        """Start writing; also after ``close``.

        Args:
            version: Version of the environment.
        """
        self._version = version
        self._writer.start()

    async def close(self) -> None:
        """Write what was collected, and end."""
        self._hand_over()
        await asyncio.to_thread(self._writer.close)

    def session(self, name: str, transport: str, token_name: str | None = None) -> "SessionTrace":
        """Return the trace of a new session.

        Args:
            name: The session's public name.
            transport: Its transport.
            token_name: Name of its client's token; ``None`` for a client without a named one.
        """
        return SessionTrace(self, name, transport, token_name)

    def chooses(self, episode_id: object) -> bool:
        """Return whether the next episode is part of the share.

        Args:
            episode_id: The id that its reset names, by which its client knows too; ``None`` for a random choice.
        """
        if isinstance(episode_id, str):
            return is_in_share(episode_id, self._share)
        if self._named_only:
            return False
        return self._share >= 1.0 or self._random.random() < self._share

    def begin(self, session: str, transport: str, arguments: Mapping[str, Any], token_name: str | None) -> EpisodeTrace:
        """Begin the trace of an episode.

        Args:
            session: Public name of the session.
            transport: Its transport.
            arguments: Arguments of the reset.
            token_name: As for ``session``.
        """
        row = EpisodeRow(
            number=next(self._numbers),
            session=session,
            transport=transport,
            environment=self._environment,
            version=self._version,
            started_at=time.time(),
            episode_id=_text(arguments.get("episode_id")),
            seed=_text(arguments.get("seed")),
            split=_text(arguments.get("split")),
            task_index=_text(arguments.get("index")),
            token_name=token_name,
        )
        return EpisodeTrace(row, row.started_at - time.monotonic())

    def added_large(self, size: int) -> None:
        """Count a large entry that was collected, of so many characters."""
        self._large += size
        if self._large > min(_MOST_COLLECTED, self._writer.piece_bytes):
            self._hand_over()

    def changed(self, trace: EpisodeTrace) -> None:
        """Have a trace written soon."""
        self._changed[trace.row.number] = trace
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HAND_OVER_EVERY_S, self._hand_over)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        changed, self._changed = self._changed, {}
        self._large = 0
        if changed:
            parts = [trace.take() for trace in changed.values()]
            self._writer.put(parts, sum(_size_of(part.entries) for part in parts))


class SessionTrace:
    """Trace of one session's episodes, one after another. Requests come one at a time.

    Args:
        recorder: The server's recorder.
        session: Public name of the session.
        transport: Its transport.
        token_name: Name of its client's token; ``None`` for a client without a named one.
    """

    __slots__ = (
        "_arguments",
        "_episode",
        "_kind",
        "_recorder",
        "_sent",
        "_session",
        "_skips",
        "_token_name",
        "_transport",
    )

    def __init__(self, recorder: TraceRecorder, session: str, transport: str, token_name: str | None) -> None:
        self._recorder = recorder
        self._session = session
        self._transport = transport
        self._token_name = token_name
        self._episode: EpisodeTrace | None = None
        self._skips = False  # whether the current episode is not part of the share
        self._kind: str | None = None  # of the request under way
        self._arguments: Mapping[str, Any] | BaseModel = {}  # of the last reset
        self._sent = b"{}"

    def request(self, kind: str, data: Mapping[str, Any] | BaseModel, sent: Sent | None) -> None:
        """Record a request that is about to be carried out.

        Args:
            kind: ``reset`` or ``step``.
            data: Arguments of the reset, or the action.
            sent: The same as it was sent, perhaps as JSON, and encoded here if not; ``None`` for ``data`` itself.
        """
        if self._kind is not None:
            self._answer_cancelled()
        if kind == RESET:
            self._arguments = data
        elif self._skips:
            return
        self._kind = kind
        self._sent = sent if isinstance(sent, bytes) else copy_of(data if sent is None else sent)

    def forget_request(self) -> None:
        """Leave out the request under way, which is no part of the episode."""
        self._kind = None

    def answer(self, outcome: Outcome, began: float, arrays: ArrayWriter | None) -> None:
        """Record the outcome of the request, as JSON that it has then as ``written``.

        Args:
            outcome: The outcome.
            began: When the request's turn began, by ``time.monotonic``.
            arrays: Collects the arrays of the JSON; ``None`` for nested lists in their place, which traces have always.
        """
        kind, self._kind = self._kind, None
        if kind is None:
            return
        try:
            outcome.written = written = outcome.written or written_outcome(outcome, arrays)
        except RequestError as error:  # the transport meets it, too
            self._kind = kind
            self.failure(error)
            return
        episode = self._episode
        if kind == RESET or episode is None:
            episode = self._begin(self._arguments if kind == RESET else {})
            if episode is None:
                return
        sent, text = self._sent, written if isinstance(written, str) else written.nested()
        # On the path of each step: nothing is written or copied, and what can be counted later is.
        if not episode.entries:
            self._recorder.changed(episode)
        episode.entries += (STEP_CODE if kind == STEP else RESET_CODE, time.monotonic(), began, sent, text)
        if (reward := outcome.reward) is not None:
            episode.reward = reward if episode.reward is None else episode.reward + reward
        if outcome.metadata and kind == STEP:
            episode.row.count_components(component_scores(outcome.metadata))
        if outcome.done:
            episode.end_with(outcome)
        if len(sent) + len(text) > _LARGE:
            self._recorder.added_large(len(sent) + len(text))

    def failure(self, error: RequestError) -> None:
        """Record the error of the request, unless it is recorded already."""
        kind = self._kind
        if kind is None:
            return
        self._kind = None
        is_refused = isinstance(error, InvalidRequestError)  # the environment was not called
        if self._episode is None or (kind == RESET and not is_refused):
            self._begin(self._arguments if kind == RESET else {})
        self._fail(kind, error_json(error_data(error)))
        if self._episode is not None and not is_refused:
            self._episode.row.error = error.code

    def continue_from(self, other: "SessionTrace") -> None:
        """Record that the session continues, as a fork, where another session stands."""
        original = other._episode
        self._skips = original is None
        if original is not None:
            self._episode = self._recorder.begin(self._session, self._transport, {}, self._token_name)
            self._episode.continue_from(original)

    def close(self, ending: str) -> None:
        """Record the end of the session.

        Args:
            ending: Why the session ended.
        """
        if self._kind is not None:
            self._answer_cancelled()
        self._leave(ending)

    def _begin(self, arguments: Mapping[str, Any] | BaseModel) -> EpisodeTrace | None:
        self._leave(ABANDONED)
        known = arguments if isinstance(arguments, Mapping) else {}
        self._skips = not self._recorder.chooses(known.get("episode_id"))
        if not self._skips:
            self._episode = self._recorder.begin(self._session, self._transport, known, self._token_name)
        return self._episode

    def _leave(self, ending: str) -> None:
        """Leave the current episode, which has ended unless it is done."""
        episode, self._episode = self._episode, None
        if episode is not None and episode.row.ending is None:
            episode.end(ending)
            self._recorder.changed(episode)

    def _answer_cancelled(self) -> None:
        kind, self._kind = self._kind, None
        if kind is not None:
            self._fail(kind, _CANCELLED)

    def _fail(self, kind: str, answer: str) -> None:
        episode = self._episode
        if episode is None:
            return
        if not episode.entries:
            self._recorder.changed(episode)
        now = time.monotonic()
        episode.entries += (FAILED_STEP_CODE if kind == STEP else FAILED_RESET_CODE, now, now, self._sent, answer)
        if len(self._sent) > _LARGE:
            self._recorder.added_large(len(self._sent))


def is_in_share(episode_id: str, share: float) -> bool:
    """Return whether an episode is part of the share that is recorded, as server and client both decide it.

    Args:
        episode_id: The id that its reset names.
        share: The share, from 0 to 1.

    Example:
        >>> is_in_share("a", 1.0), is_in_share("a", 0.0)
        (True, False)
    """
    return crc32(episode_id.encode(errors="replace")) < share * 2**32


def _size_of(entries: Sequence[Any]) -> int:
    return sum(map(len, entries[REQUEST::VALUES])) + sum(map(len, entries[ANSWER::VALUES]))


def _text(value: Any) -> str | None:
    """Return an argument of a reset as text, for a column of the store."""
    if value is None or isinstance(value, bool | list | dict):
        return None
    return str(value)[:200].encode(errors="replace").decode()  # a surrogate has no form in UTF-8
