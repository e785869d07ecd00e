"""Traces of a training: the started servers record the requests, and here a thread adds what the model's side knows."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from types import TracebackType
from typing import Any, Self

from openenv.auto.target import is_address
from openenv.core.env_server.settings import ServerConfig, environment_variables
from openenv.core.env_server.traces.recording import is_in_share
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import EVALUATION_ID, Conversation
from openenv.traces.reading import TraceFile
from openenv.traces.reading import open as open_traces
from openenv.train.dataset.run_traces import episode_elsewhere, stored_messages, with_episode_id
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.text_form import turn_messages
from openenv.train.forms.tool_form import call_message, tool_messages
from openenv.train.rollout.play import Play
from openenv.train.spec.rollout_recorder import RolloutBatch

__all__ = ["EvaluationTraces", "RolloutTraces"]

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024
# Batches that wait to be written, beyond which the next ones are dropped.
_MOST_WAITING = 8
_PRUNE_EVERY_S = 30.0
# Seconds for the last writes.
_CLOSE_TIMEOUT_S = 30.0


class RolloutTraces:
    """Traces of a training's rollouts and evaluations; a context manager, and a `RolloutRecorder`.

    What can't be written is lost, which is logged; nothing waits for it.

    Args:
        path: The file. It is created when the block begins; where that fails, nothing is recorded.
        model: Name of the model that is trained.
        environments: What each environment is made of, by its name among several; the name of a single one is empty.
        share: Share of the episodes that are recorded, from 0 to 1.
        leave_out: Paths of fields that are not recorded, beside those that ``OPENENV_TRACES_LEAVE_OUT`` names.

    Example::

        with RolloutTraces(folder.traces, "tiny", {"": "catch"}) as traces:
            with Sessions.open("catch", 64, env_vars=traces.env_vars) as sessions:
                rollout = RolloutFunction(EnvSpec(sessions), recorder=traces)
    """

    def __init__(
        self,
        path: Path,
        model: str,
        environments: Mapping[str, str],
        share: float = 1.0,
        leave_out: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._model = model
        self._environments = environments
        self._share = share
        self._leave_out = ServerConfig.read({"traces_leave_out": leave_out}).traces_leave_out
        self._queue: Queue[RolloutBatch | None] = Queue(_MOST_WAITING)
        self._thread: Thread | None = None
        self._dropped = 0

    @property
    def env_vars(self) -> Mapping[str, str] | None:
        """Environment variables with which the started servers record; ``None`` if they are not to."""
        if not self._share:
            return None
        return environment_variables(
            {
                "traces": self._path.absolute(),
                "traces_sample": self._share,
                "traces_named_only": True,  # the games of examples and of a vocabulary are played on the same servers
                "traces_leave_out": self._leave_out,
            }
        )

    def named(self, parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return what a reset is passed, with an ``episode_id`` where episodes are recorded.

        Args:
            parameters: What the task passes to the reset; see `with_episode_id`.
            prefix: What an ``episode_id`` that is made here begins with.
        """
        return with_episode_id(parameters, prefix) if self._share else dict(parameters)

    def evaluation(self, name: str, environment: str, step: int, player: str = "") -> "EvaluationTraces":
        """Return what records the episodes of an evaluation.

        Args:
            name: Name of the evaluation, such as ``before training``.
            environment: Name of the environment among several; empty for a single one.
            step: The next optimiser step.
            player: Who plays; empty for the model.
        """
        return EvaluationTraces(self, name, environment, step, player)

    def has(self, episode_id: str | None) -> bool:
        """Return whether an episode is part of the share that is recorded, which the servers decide alike.

        Args:
            episode_id: The id that its reset names.
        """
        return episode_id is not None and is_in_share(episode_id, self._share)

    def add(self, batch: RolloutBatch) -> None:
        """Have episodes written; drop them if too many wait already."""
        if self._thread is None:
            return
        if not self._thread.is_alive():
            self._drop(batch, "are no longer written, so the following conversations are dropped")
            return
        try:
            self._queue.put_nowait(batch)
        except Full:
            self._drop(batch, "are written too slowly, so some conversations are dropped")

    def close(self) -> None:
        """Write what waits, and end. Blocks for some seconds at most."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if thread.is_alive():
            with suppress(Full):
                self._queue.put(None, timeout=_CLOSE_TIMEOUT_S)
            thread.join(_CLOSE_TIMEOUT_S)
        if thread.is_alive():
            logger.warning("the traces %s were not written completely in %g s", self._path, _CLOSE_TIMEOUT_S)
        if self._dropped:
            logger.warning("the traces %s lack the conversations of %d episodes", self._path, self._dropped)

    def __enter__(self) -> Self:
        """Create the file, and start the thread."""
        if not self._share:
            return self
        try:
            open_traces(self._path, create=True).close()
        except ConfigurationError as error:
            self._share = 0.0
            logger.warning("the episodes of this training are not recorded: %s", error)
            return self
        self._thread = Thread(target=self._run, name="rollout-traces", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def _drop(self, batch: RolloutBatch, why: str) -> None:
        if not self._dropped:
            logger.warning("the traces %s %s", self._path, why)
        self._dropped += len(batch.plays)

    def _run(self) -> None:
        writing = _Writing(self._path, self._model, self._environments, self.has, self._leave_out)
        try:
            while (batch := self._queue.get()) is not None:
                writing.add(batch)
        finally:
            writing.close()


class EvaluationTraces:
    """Traces of one evaluation of a training; an `EvaluationRecorder`. `RolloutTraces.evaluation` makes it.

    The ``episode_id`` that is made for an episode begins with ``evaluation-``, so that its server's record says what it
    is, and nothing is trained on its own test. Of a task with an ``episode_id`` of its own only the conversation says
    it, as ``extra["evaluation"]``: that id may be the one of rollouts, too.

    Args:
        traces: Records them.
        name: As for `RolloutTraces.evaluation`, and so are the others.
        environment: The environment.
        step: The next optimiser step.
        player: Who plays.
    """

    def __init__(self, traces: RolloutTraces, name: str, environment: str, step: int, player: str) -> None:
        self._traces = traces
        self._name = name
        self._environment = environment
        self._step = step
        self._player = player

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reset is passed; see `RolloutTraces.named`."""
        return self._traces.named(parameters, EVALUATION_ID)

    def add(self, plays: Sequence[Play], sampling: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> None:
        """Have episodes written; drop them if too many wait already."""
        groups = range(len(plays))
        batch = RolloutBatch(
            self._environment, self._step, plays, groups, sampling, tools, self._name, player=self._player
        )
        self._traces.add(batch)


class _Writing:
    """State of the thread: the open file.

    Args:
        path: The file.
        model: Name of the model.
        environments: As for `RolloutTraces`.
        has: Says whether the episode with an id is recorded.
        leave_out: Paths of fields that are not recorded.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        environments: Mapping[str, str],
        has: Callable[[str], bool],
        leave_out: Sequence[str],
    ) -> None:
        self._path = path
        self._model = model
        self._environments = environments
        self._has = has
        self._leave_out = leave_out
        self._file: TraceFile | None = None
        self._lost = 0
        self._prune_at = time.monotonic() + _PRUNE_EVERY_S

    def add(self, batch: RolloutBatch) -> None:
        """Write the episodes of a batch that are part of the share, all or none."""
        try:
            self._write(batch.environment, list(self._chosen(batch)))
        except ConfigurationError as error:
            if not self._lost:
                logger.warning("the traces can't be written, so conversations may not be on record: %s", error)
            self._lost += self._count(batch)
            return
        except Exception:  # one batch must not end the thread, which writes those of the whole run
            if not self._lost:
                logger.exception("a batch of episodes can't be written, so conversations may not be on record")
            self._lost += self._count(batch)
            return
        if self._lost:
            logger.warning("the traces %s are written again; they lack %d conversations", self._path, self._lost)
            self._lost = 0

    def close(self) -> None:
        """Close the file, within its bounds."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._prune(file)
            file.close()
        except ConfigurationError as error:
            logger.warning("the traces were not closed in order: %s", error)

    def _count(self, batch: RolloutBatch) -> int:
        names = [play.episode.episode_id for play in batch.plays]
        return sum(name is not None and self._has(name) for name in names)

    def _chosen(self, batch: RolloutBatch) -> Iterator[tuple[Play, Conversation]]:
        for number, (play, group) in enumerate(zip(batch.plays, batch.groups, strict=True)):
            episode_id = play.episode.episode_id
            if episode_id is not None and self._has(episode_id):
                yield play, _conversation(self._model, batch, number, group, episode_id)

    def _write(self, environment: str, chosen: list[tuple[Play, Conversation]]) -> None:
        if self._file is None:
            self._file = open_traces(self._path, create=True, leave_out=self._leave_out)
        target = self._environments[environment]
        if is_address(target):
            for play, conversation in chosen:
                self._file.add(episode_elsewhere(target, play.episode), [], [conversation])
        else:
            self._file.add_conversations(conversation for _, conversation in chosen)
        if time.monotonic() >= self._prune_at:
            self._prune(self._file)

    def _prune(self, file: TraceFile) -> None:
        self._prune_at = time.monotonic() + _PRUNE_EVERY_S
        config = ServerConfig.read()
        before = time.time() - config.traces_max_age_s
        file.prune(before=before, max_bytes=config.traces_max_size_mb * _MEBIBYTE)


def _conversation(model: str, batch: RolloutBatch, number: int, group: int, episode_id: str) -> Conversation:
    play = batch.plays[number]
    episode = play.episode
    written = sum(episode.env_mask)
    return Conversation(
        episode_id,
        messages=stored_messages(_messages(play, calls_tools=bool(batch.tools))),
        tools=batch.tools,
        model=batch.player or model,
        model_version=None if batch.player else f"step {batch.step - 1}",
        sampling=batch.sampling,
        prompt_ids=episode.prompt_ids,
        completion_ids=episode.completion_ids,
        logprobs=episode.logprobs,
        env_mask=episode.env_mask,
        input_tokens=None if batch.player else episode.length - written,
        output_tokens=None if batch.player else written,
        took_s=episode.took_s,
        extra={
            **({"evaluation": batch.evaluation} if batch.evaluation else {"step": batch.step, "group": group}),
            "index": number,
            "reward": episode.reward,
            "reward_components": episode.reward_components,
            "illegal_actions": episode.illegal_actions,
            "cut_by": episode.cut_by,
        },
    )


def _messages(play: Play, *, calls_tools: bool) -> list[Message]:
    """Return what the model was shown and did."""
    turns = play.episode.turns
    if not calls_tools:
        return turn_messages(turns)
    opening = turns[0].observation if turns else play.observation
    return [{"role": "user", "content": opening}, *(each for result in play.results for each in _exchange(result))]


def _exchange(result: MoveResult) -> list[Message]:
    """Return a call of a tool and what it gave; or what could not be read as a call, and why."""
    answer = call_message(result.move)
    return [answer, *tool_messages(answer, [result])]
