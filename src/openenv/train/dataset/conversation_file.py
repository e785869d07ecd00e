"""File of traces in which a started server records episodes, and to which their conversations are added here."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from openenv.core.documents import without_half_pairs
from openenv.core.env_server.settings import ServerConfig, environment_variables
from openenv.core.exceptions import OpenEnvError, ServerError
from openenv.traces.episodes import Conversation, Episode
from openenv.traces.reading import TraceFile
from openenv.traces.reading import open as open_traces
from openenv.train.episodes.episode import Episode as PlayedRecord
from openenv.train.episodes.played_episode import Message, text_of

__all__ = ["ConversationFile", "stored_messages", "stored_texts", "with_episode_id"]

_MEBIBYTE = 1024 * 1024


class ConversationFile:
    """Conversations of episodes in a file of traces; both sides name an episode by the ``episode_id`` of its reset."""

    def __init__(self, path: Path, leave_out: Sequence[str] = ()) -> None:
        self.path = path
        # Paths of fields that are not recorded, with those that ``OPENENV_TRACES_LEAVE_OUT`` names.
        self._leave_out = ServerConfig.read({"traces_leave_out": leave_out}).traces_leave_out
        # Open from the first conversation until `close`.
        self._file: TraceFile | None = None

    def env_vars(self, **settings: Any) -> Mapping[str, str]:
        """Return the environment variables with which a started server of these settings records in the file."""
        own = {"traces": self.path.absolute(), "traces_leave_out": self._leave_out}
        return environment_variables({**own, **settings})

    def add(self, environment: str, played: Sequence[tuple[PlayedRecord, Conversation]], *, is_elsewhere: bool) -> None:
        """Add the conversations of episodes, of a started server all or none.

        Raises:
            ConfigurationError: The file can't be written.
        """
        if self._file is None:
            self._file = open_traces(self.path, create=True, leave_out=self._leave_out)
        if not is_elsewhere:
            self._file.add_conversations(conversation for _, conversation in played)
            return
        # The server was given by its address and records nothing in this file: the episodes are added, too, without
        # their requests.
        for episode, conversation in played:
            self._file.add(_episode_elsewhere(environment, episode), [], [conversation])

    def prune(self, *, before: float | None = None) -> None:
        """Keep the file within the size that servers keep traces in, and remove what began before a time (since 1970).

        Raises:
            ConfigurationError: The file can't be written.
        """
        if self._file is not None:
            self._file.prune(before=before, max_bytes=ServerConfig.read().traces_max_size_mb * _MEBIBYTE)

    def close(self) -> None:
        """Close the file.

        Raises:
            ConfigurationError: The last conversations can't be written.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()


def with_episode_id(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what a reset is passed, with an ``episode_id`` that is made here unless the task has one."""
    # A task's own stays, since the environment may find the episode by it. ``None`` counts as none.
    if parameters.get("episode_id") is not None:
        return dict(parameters)
    return {**parameters, "episode_id": f"{prefix}{uuid4().hex}"}


def _episode_elsewhere(environment: str, episode: PlayedRecord) -> Episode:
    """Return what is known of an episode on a server that records elsewhere or not at all."""
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
        reward=None if episode.error is not None else episode.reward,
        ending="done" if episode.done else "closed",
        error=_code(episode.error),
        parent=None,
    )


def stored_messages(messages: Sequence[Message]) -> Any:
    """Return messages without pictures, and without half of a surrogate pair, which a model may write."""
    texts = [{**message, "content": text_of(message["content"])} for message in messages]
    return without_half_pairs(texts)


def stored_texts(episode: PlayedRecord, texts: Mapping[int, str]) -> dict[str, str]:
    """Return the texts of an episode's tokens by their ids, as far as they are known."""
    tokens = dict.fromkeys((*episode.prompt_ids, *episode.completion_ids))
    return {str(token): texts[token] for token in tokens if token in texts}


def _code(error: OpenEnvError | None) -> str | None:
    if isinstance(error, ServerError):
        return error.code
    return None if error is None else type(error).__name__


def _text(value: object) -> str | None:
    return None if value is None else str(value)
