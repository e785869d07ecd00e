"""Traces of the episodes that are collected or evaluated on: their server's, with the player's side of them."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Conversation
from openenv.train.agents.agent import EndedEpisode
from openenv.train.dataset.conversation_file import ConversationFile, stored_messages, stored_texts, with_episode_id
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.settings.play_settings import PlaySettings

__all__ = ["PlayTraces"]

logger = logging.getLogger(__name__)


class PlayTraces:
    """Traces of the episodes that are played with some settings; a context manager, and an `EpisodeRecorder`.

    Example::

        with PlayTraces(Path("evals/wordle/traces.db"), settings) as traces:
            with open_agent(settings, 16, traces.env_vars) as (agent, sessions):
                for played in play(agent, tasks, sessions, traces):
                    print(played.episode.reward)
    """

    def __init__(self, path: Path, settings: PlaySettings) -> None:
        self._settings = settings
        # Until the file can't be written.
        self._is_recorded = settings.traces
        # Created by the started server, or with the first episode. Of a server that was given by its URL it has rewards
        # and conversations, and no requests.
        self._file = ConversationFile(path, settings.traces_leave_out)

    @property
    def env_vars(self) -> Mapping[str, str] | None:
        """Environment variables with which the started server records; ``None`` if it is not to."""
        return self._file.env_vars() if self._is_recorded else None

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reset is passed, with an ``episode_id`` where episodes are recorded; see `with_episode_id`."""
        return with_episode_id(parameters) if self._is_recorded else dict(parameters)

    def add(self, episodes: Sequence[EndedEpisode]) -> None:
        """Add the conversations of episodes; where the file can't be written, log that once and add no more."""
        conversations = [
            (played.episode, self._conversation(played.episode.episode_id, played))
            for _, played in episodes
            if played.episode.episode_id is not None
        ]
        if not self._is_recorded or not conversations:
            return
        try:
            self._file.add(self._settings.name, conversations, is_elsewhere=not self._settings.starts_server)
        except ConfigurationError as error:
            self._is_recorded = False
            logger.warning("the conversations of the following episodes are not recorded: %s", error)

    def close(self) -> None:
        """Close the file, which is kept within the size that servers keep traces in."""
        try:
            self._file.prune()
            self._file.close()
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
            token_texts=stored_texts(episode, played.token_texts),
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cost_usd=None if usage is None else usage.cost_usd,
            took_s=episode.took_s,
            extra={
                "index": played.index,
                "illegal_actions": episode.illegal_actions,
                "cut_by": episode.cut_by,
                "cut_answers": episode.cut_answers,
            },
        )
