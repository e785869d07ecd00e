"""Recorders of a training's episodes: traces, whose requests the started servers record, and ``rollouts.jsonl``."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from types import TracebackType
from typing import Any, Self

from openenv.auto.target import is_address
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.traces.recording import is_in_share
from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder
from openenv.traces.episodes import EVALUATION_ID, Conversation
from openenv.traces.reading import open as open_traces
from openenv.train.agents.agent import EndedEpisode
from openenv.train.dataset.conversation_file import ConversationFile, stored_messages, stored_texts, with_episode_id
from openenv.train.rollout.play import Play
from openenv.train.rollout.rollout_recorder import RolloutBatch
from openenv.train.settings.config import TrainConfig

__all__ = ["RolloutTraces", "RunRecorder"]

logger = logging.getLogger(__name__)

# Batches that wait to be written, beyond which the next ones are dropped.
_MAX_WAITING = 8
_PRUNE_EVERY_S = 30.0
# Seconds for the last writes.
_CLOSE_TIMEOUT_S = 30.0


class RolloutTraces:
    """Traces of a training's rollouts and evaluations; a context manager, and a `RolloutRecorder`.

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
        self._model = model
        # Target of each environment by its name among several; the name of a single one is empty.
        self._environments = environments
        # Share of the episodes that are recorded, from 0 to 1; 0 once the file could not be created.
        self._share = share
        # Written by the thread alone. What can't be written is lost, which is logged; nothing waits for it.
        self._file = ConversationFile(path, leave_out)
        self._queue: Queue[RolloutBatch | None] = Queue(_MAX_WAITING)
        self._thread: Thread | None = None
        self._dropped = 0

    @property
    def env_vars(self) -> Mapping[str, str] | None:
        """Environment variables with which the started servers record; ``None`` if they are not to."""
        if not self._share:
            return None
        # The games of examples and of a vocabulary, which have no ids, are played on the same servers.
        return self._file.env_vars(traces_sample=self._share, traces_named_only=True)

    def named(self, parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return what a reset is passed, with an ``episode_id`` where episodes are recorded; see `with_episode_id`."""
        return with_episode_id(parameters, prefix) if self._share else dict(parameters)

    def evaluation(
        self,
        name: str,
        environment: str,
        step: int,
        player: str = "",
        sampling: Mapping[str, Any] | None = None,
    ) -> "_EvaluationTraces":
        """Return the recorder of an evaluation before an optimiser step; of the model's, ``player`` is empty."""
        return _EvaluationTraces(
            self, RolloutBatch(environment, step, (), (), sampling or {}, evaluation=name, player=player)
        )

    def has(self, episode_id: str | None) -> bool:
        """Return whether the episode with an id is part of the share that is recorded, which servers decide alike."""
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
        """Write what waits, for some seconds at most, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if thread.is_alive():
            with suppress(Full):
                self._queue.put(None, timeout=_CLOSE_TIMEOUT_S)
            thread.join(_CLOSE_TIMEOUT_S)
        if thread.is_alive():
            logger.warning("the traces %s were not written completely in %g s", self._file.path, _CLOSE_TIMEOUT_S)
        if self._dropped:
            logger.warning("the traces %s lack the conversations of %d episodes", self._file.path, self._dropped)

    def __enter__(self) -> Self:
        """Create the file, and start the thread."""
        if not self._share:
            return self
        try:
            open_traces(self._file.path, create=True).close()
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
            logger.warning("the traces %s %s", self._file.path, why)
        self._dropped += len(batch.plays)

    def _run(self) -> None:
        writing = _Writing(self._file, self._model, self._environments, self.has)
        try:
            while (batch := self._queue.get()) is not None:
                writing.add(batch)
        finally:
            writing.close()


class RunRecorder(RolloutTraces):
    """Recorder of a run's episodes: traces of all, and lines of ``rollouts.jsonl`` of those that are trained on."""

    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        environments = {name: part.environment for name, part in config.parts.items()}
        share = config.traces_sample if config.traces else 0.0
        super().__init__(folder.traces, config.model, environments, share, config.traces_leave_out)
        self._folder = folder
        # Set when a line could not be written, so that this is logged once.
        self._has_failed = False

    def add(self, batch: RolloutBatch) -> None:
        """Record episodes."""
        if not batch.evaluation:
            self._add_line(batch)
        super().add(batch)

    def _add_line(self, batch: RolloutBatch) -> None:
        episodes = [self._fields_of(play, group) for play, group in zip(batch.plays, batch.groups, strict=True)]
        try:
            self._folder.add_rollouts({"step": batch.step, "environment": batch.environment, "episodes": episodes})
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                logger.warning("%s can't be written, so episodes may be missing: %s", self._folder.rollouts, error)

    def _fields_of(self, play: Play, group: int) -> dict[str, Any]:
        episode = play.episode
        fields = {
            "episode_id": episode.episode_id if self.has(episode.episode_id) else None,
            "group": group,
            "task": episode.parameters,
            "reward": episode.reward,  # with an error, what was reached before it
            "reward_components": episode.reward_components,
            "length": len(episode.turns),
            "illegal_actions": episode.illegal_actions,
            "cut_by": episode.cut_by,
            "error": None if episode.error is None else str(episode.error),
            "failure": episode.failure,
        }
        return {name: value for name, value in fields.items() if value not in (None, {})}


class _EvaluationTraces:
    """Traces of one evaluation of a training, which `RolloutTraces.evaluation` makes; an `EpisodeRecorder`."""

    def __init__(self, traces: RolloutTraces, about: RolloutBatch) -> None:
        self._traces = traces
        # A batch without episodes.
        self._about = about

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reset is passed; see `RolloutTraces.named`."""
        # By this beginning of an id that is made here, its server's record is known as an evaluation's, and nothing is
        # trained on its own test. Of a task with an id of its own, which may be the one of rollouts, too, only the
        # conversation has that, as ``extra["evaluation"]``.
        return self._traces.named(parameters, EVALUATION_ID)

    def add(self, episodes: Sequence[EndedEpisode]) -> None:
        """Have episodes written; drop them if too many wait already."""
        plays = [play for play, _ in episodes]
        texts: dict[int, str] = {}
        for _, played in episodes:
            texts |= played.token_texts
        batch = replace(self._about, plays=plays, groups=range(len(plays)), token_texts=texts)
        self._traces.add(replace(batch, tools=episodes[0][1].tools) if episodes else batch)


class _Writing:
    """State of the thread that writes."""

    def __init__(
        self, file: ConversationFile, model: str, environments: Mapping[str, str], has: Callable[[str], bool]
    ) -> None:
        self._file = file
        self._model = model
        self._environments = environments
        self._has = has
        # Episodes since the last batch that was written.
        self._lost = 0
        self._prune_at = time.monotonic() + _PRUNE_EVERY_S

    def add(self, batch: RolloutBatch) -> None:
        """Write the episodes of a batch that are part of the share, all or none."""
        try:
            self._write(batch)
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
            logger.warning("the traces %s are written again; they lack %d conversations", self._file.path, self._lost)
            self._lost = 0

    def close(self) -> None:
        """Close the file, within its bounds."""
        try:
            self._prune()
            self._file.close()
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

    def _write(self, batch: RolloutBatch) -> None:
        target = self._environments[batch.environment]
        chosen = [(play.episode, conversation) for play, conversation in self._chosen(batch)]
        self._file.add(target, chosen, is_elsewhere=is_address(target))
        if time.monotonic() >= self._prune_at:
            self._prune()

    def _prune(self) -> None:
        self._prune_at = time.monotonic() + _PRUNE_EVERY_S
        self._file.prune(before=time.time() - ServerConfig.read().traces_max_age_s)


def _conversation(model: str, batch: RolloutBatch, number: int, group: int, episode_id: str) -> Conversation:
    play = batch.plays[number]
    episode = play.episode
    written = sum(episode.env_mask)
    return Conversation(
        episode_id,
        messages=stored_messages(play.messages),
        tools=batch.tools,
        model=batch.player or model,
        model_version=None if batch.player else f"step {batch.step - 1}",
        sampling=batch.sampling,
        prompt_ids=episode.prompt_ids,
        completion_ids=episode.completion_ids,
        logprobs=episode.logprobs,
        env_mask=episode.env_mask,
        token_texts=stored_texts(episode, batch.token_texts),
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
            "cut_answers": episode.cut_answers,
        },
    )
