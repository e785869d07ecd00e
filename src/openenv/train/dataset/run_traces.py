"""Traces of the episodes that are played: the started server records them, and here the model's side is added."""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from openenv.core.env_server.settings import ServerConfig, environment_variables
from openenv.core.exceptions import ConfigurationError, OpenEnvError, ServerError
from openenv.traces.episodes import Conversation, Episode
from openenv.traces.reading import TraceFile
from openenv.traces.reading import open as open_traces
from openenv.train.episodes.episode import Episode as PlayedRecord
from openenv.train.episodes.messages import Message, text_of
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["RunTraces", "episode_elsewhere", "stored_messages", "with_episode_id"]

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024


class RunTraces:
    """Traces of the episodes that are played with some settings; a context manager.

    Both sides of an episode name it by the ``episode_id`` of its reset. A server that was given by its URL records
    nothing in this file, so an episode there has its rewards and the conversation, and no requests.

    Args:
        path: The file. It is created by the started server, or with the first episode.
        settings: How the episodes are played; they may say that nothing is recorded.

    Example::

        with RunTraces(Path("evals/wordle/traces.db"), settings) as traces:
            with open_agent(settings, 16, traces.env_vars) as source:
                for played in source.play(traces.named(tasks)):
                    traces.add(played)
    """

    def __init__(self, path: Path, settings: PlaySettings) -> None:
        self._path = path
        self._settings = settings
        self._is_recorded = settings.traces
        # With those that the variable names.
        self._leave_out = ServerConfig.read({"traces_leave_out": settings.traces_leave_out}).traces_leave_out
        self._file: TraceFile | None = None

    @property
    def env_vars(self) -> Mapping[str, str] | None:
        """Environment variables with which the started server records; ``None`` if it is not to."""
        if not self._is_recorded:
            return None
        return environment_variables({"traces": self._path.absolute(), "traces_leave_out": self._leave_out})

    def named(self, tasks: Iterable[NumberedTask]) -> list[NumberedTask]:
        """Give the episode of each task an id, unless the task has one.

        Args:
            tasks: The tasks with the episodes' numbers.
        """
        if not self._is_recorded:
            return list(tasks)
        return [(number, with_episode_id(task)) for number, task in tasks]

    def add(self, played: PlayedEpisode) -> None:
        """Add what only the model's side knows of an episode.

        Where the file can't be written, that is logged once, and nothing more is added.

        Args:
            played: The episode.
        """
        if not self._is_recorded or played.episode.episode_id is None:
            return
        try:
            self._add(self._opened(), played.episode.episode_id, played)
        except ConfigurationError as error:
            self._is_recorded = False
            logger.warning("the conversations of the following episodes are not recorded: %s", error)

    def close(self) -> None:
        """Close the file, which is kept within the size that servers keep traces in."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.prune(max_bytes=ServerConfig().traces_max_size_mb * _MEBIBYTE)
            file.close()
        except ConfigurationError as error:
            logger.warning("the traces were not closed in order: %s", error)

    def __enter__(self) -> Self:
        """Return the traces."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close them."""
        self.close()

    def _opened(self) -> TraceFile:
        if self._file is None:
            self._file = open_traces(self._path, create=True, leave_out=self._leave_out)
        return self._file

    def _add(self, file: TraceFile, episode_id: str, played: PlayedEpisode) -> None:
        conversation = self._conversation(episode_id, played)
        if not self._settings.starts_server:
            file.add(episode_elsewhere(self._settings.name, played.episode), [], [conversation])
        else:
            file.add_conversation(conversation)

    def _conversation(self, episode_id: str, played: PlayedEpisode) -> Conversation:
        episode, usage, settings = played.episode, played.usage, self._settings
        sampling = {} if usage is None else {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
        return Conversation(
            episode_id,
            messages=stored_messages(played.messages),
            tools=played.tools,
            model=settings.who,
            model_version=None if usage is None else usage.model_version,
            sampling={name: value for name, value in sampling.items() if value is not None},
            prompt_ids=episode.prompt_ids,
            completion_ids=episode.completion_ids,
            logprobs=episode.logprobs,
            env_mask=episode.env_mask,
            input_tokens=None if usage is None else usage.input_tokens or None,
            output_tokens=None if usage is None else usage.output_tokens or None,
            cost_usd=None if usage is None else usage.cost_usd,
            took_s=episode.took_s,
            extra={"index": played.index, "illegal_actions": episode.illegal_actions},
        )


def with_episode_id(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what a reset is passed, with an ``episode_id`` that is made here unless a task has one.

    That of a task stays as it is, since the environment may find the episode by it. ``None`` counts as none.

    Args:
        parameters: What the task passes to the reset.
        prefix: What an id that is made here begins with.
    """
    if parameters.get("episode_id") is not None:
        return dict(parameters)
    return {**parameters, "episode_id": f"{prefix}{uuid4().hex}"}


def episode_elsewhere(environment: str, episode: PlayedRecord) -> Episode:
    """Return what is known of an episode on a server that records elsewhere or not at all.

    Args:
        environment: The server's URL.
        episode: What happened.
    """
    now = time.time()
    return Episode(
        id="",
        environment=environment,
        version=None,
        session="",
        transport="client",
        started_at=now - episode.took_s,
        ended_at=now,
        episode_id=episode.episode_id,
        seed=_text(episode.seed),
        split=_text(episode.task.get("split")),
        index=_text(episode.task.get("index")),
        steps=len(episode.turns),
        reward=episode.reward,
        ending="done" if episode.done else "closed",
        error=_code(episode.error),
        parent=None,
    )


def stored_messages(messages: Sequence[Message]) -> Any:
    """Return messages without pictures, and without half of a surrogate pair, which a model may write."""
    texts = [{**message, "content": text_of(message["content"])} for message in messages]
    return json.loads(json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace"))


def _code(error: OpenEnvError | None) -> str | None:
    if isinstance(error, ServerError):
        return error.code
    return None if error is None else type(error).__name__


def _text(value: object) -> str | None:
    return None if value is None else str(value)
