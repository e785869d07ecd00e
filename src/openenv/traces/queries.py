"""What a file of traces is queried with: conditions of filters, and the values that episodes are grouped by."""

import time
from dataclasses import asdict
from typing import Any, Self

from pydantic_core import to_json

from openenv.core.env_server.traces.store import ALIVE_S, COLUMNS
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import INTERRUPTED, RUNNING, Filter

_HOW = f"""
CASE WHEN ending IS NOT NULL THEN ending
    WHEN run.ended_at IS NULL AND run.seen_at >= :alive THEN '{RUNNING}' ELSE '{INTERRUPTED}' END
"""
_CONDITIONS = {
    "environment": "environment = :environment",
    "split": "split = :split",
    "index": "task_index = :index",
    "seed": "seed = :seed",
    "episode_id": "episode.episode_id = :episode_id",
    "session": "substr(session, 1, length(:session)) = :session",
    "transport": "transport = :transport",
    "model": "EXISTS (SELECT 1 FROM conversation WHERE conversation.episode_id = episode.episode_id "
    "AND conversation.model = :model)",
    "min_reward": "reward >= :min_reward",
    "max_reward": "reward <= :max_reward",
    "since": "episode.started_at >= :since",
    "until": "episode.started_at <= :until",
    "ending": f"({_HOW}) = :ending",
    "text": "EXISTS (SELECT 1 FROM part WHERE part.episode = episode.number AND instr(content, :text))",
}
_FROM = "FROM episode LEFT JOIN run ON run.number = episode.number >> 32"
_GROUPED = {
    "environment": "environment",
    "version": "version",
    "transport": "transport",
    "split": "split",
    "index": "task_index",
    "seed": "seed",
    "ending": _HOW,
    "error": "error",
    "run": "episode.number >> 32",
    "model": "(SELECT model FROM conversation WHERE conversation.episode_id = episode.episode_id LIMIT 1)",
}
GROUP_FIELDS = tuple(_GROUPED)
"""Names of the values that episodes can be grouped by."""


class Query:
    """Conditions on episodes as SQL, with the values that they compare with.

    Args:
        where: Filter; ``None`` for all episodes.

    Attributes:
        values: The values by their names in the SQL.
    """

    def __init__(self, where: Filter | None = None) -> None:
        given = {name: value for name, value in asdict(where or Filter()).items() if value is not None}
        self._conditions = [_CONDITIONS[name] for name in given]
        if "text" in given:
            given["text"] = to_json(given["text"])[1:-1]  # as it stands within JSON
        self.values: dict[str, Any] = {**given, "alive": time.time() - ALIVE_S}

    def with_number(self, number: int | None) -> Self:
        """Let only the episode with this number through."""
        return self._with("episode.number = :number", number=number)

    def before(self, started_at: float, number: int) -> Self:
        """Let only episodes through that are listed after this one."""
        condition = "(episode.started_at, episode.number) < (:after_started_at, :after_number)"
        return self._with(condition, after_started_at=started_at, after_number=number)

    def episodes(self, limit: int | None = None) -> str:
        """Return the SQL that selects the columns of episodes and how each ended, newest first."""
        self.values["limit"] = -1 if limit is None else limit
        columns = ", ".join(f"episode.{name}" for name in COLUMNS)
        return (
            f"SELECT {columns}, {_HOW} {_FROM} WHERE {self._where} "  # constants
            "ORDER BY episode.started_at DESC, episode.number DESC LIMIT :limit"
        )

    def count(self) -> str:
        """Return the SQL that counts episodes."""
        return f"SELECT count(*) {_FROM} WHERE {self._where}"  # constants

    def groups(self, names: tuple[str, ...], limit: int | None = None) -> str:
        """Return the SQL that counts episodes by values, the group with the newest episode first.

        Raises:
            ConfigurationError: There is no such field to group by.
        """
        unknown = [name for name in names if name not in _GROUPED]
        if unknown or not names:
            raise ConfigurationError(
                f"Expected to group by some of {', '.join(GROUP_FIELDS)}, got {unknown[0] if unknown else 'nothing'!r}."
            )
        self.values["limit"] = -1 if limit is None else limit
        columns = ", ".join(_GROUPED[name] for name in names)
        places = ", ".join(str(place) for place, _ in enumerate(names, 1))
        return (
            f"SELECT {columns}, count(*), sum(steps), avg(reward), min(reward), max(reward), "  # constants
            f"max(episode.started_at) AS newest {_FROM} WHERE {self._where} GROUP BY {places} "
            "ORDER BY newest DESC LIMIT :limit"
        )

    @property
    def _where(self) -> str:
        return " AND ".join(self._conditions) or "1"

    def _with(self, condition: str, **values: Any) -> Self:
        self._conditions.append(condition)
        self.values.update(values)
        return self
