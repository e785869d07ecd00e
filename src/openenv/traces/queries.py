"""Queries of a file of traces: conditions of filters, and the values that episodes are grouped by."""

from dataclasses import asdict
from typing import Any, Self

from pydantic import ValidationError
from pydantic_core import to_json

from openenv.core.env_server.traces.store import COLUMNS, name_of
from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics.bounds import highest_within, lowest_reaching
from openenv.core.schema.generator import faults_text
from openenv.traces.episodes import (
    EPISODE,
    EVALUATION_ID,
    INTERRUPTED,
    RUNNING,
    SCRIPTED_PLAYER,
    UNREADABLE,
    Episode,
    Filter,
    Flag,
    Order,
)

_HOW = f"""
CASE WHEN ending IS NOT NULL THEN ending
    WHEN run.ended_at IS NULL AND run.seen_at >= :alive THEN '{RUNNING}' ELSE '{INTERRUPTED}' END
"""
# What stands out about an episode, each as a condition. Rewards that differ by less than 1e-6 are the same.
_FLAGS: dict[Flag, str] = {
    "cut_off": "ending = 'truncated'",
    "length_limit": "EXISTS (SELECT 1 FROM conversation WHERE conversation.episode_id = episode.episode_id "
    "AND conversation.cut_by IS NOT NULL)",
    "no_reward": f"(episode.reward IS NULL AND ({_HOW}) <> '{RUNNING}')",
    "no_variance": """EXISTS (
    SELECT 1 FROM conversation AS own WHERE own.episode_id = episode.episode_id AND own.rollout_group IS NOT NULL AND (
        SELECT count(*) > 1 AND max(other.reward) - min(other.reward) < 1e-6 FROM conversation AS other
        JOIN episode AS rollout ON rollout.episode_id = other.episode_id
        WHERE other.rollout_group = own.rollout_group AND rollout.environment = episode.environment
        AND rollout.error IS NULL
    )
)""",
    "above_scripted": """EXISTS (
    SELECT 1 FROM (
        SELECT rated.environment, avg(rated.reward) AS mean FROM conversation
        JOIN episode AS rated ON rated.episode_id = conversation.episode_id
        WHERE conversation.model = :scripted AND rated.error IS NULL GROUP BY rated.environment
    ) AS scripted
    WHERE scripted.environment = episode.environment AND episode.reward > scripted.mean + 1e-6
) AND NOT EXISTS (
    SELECT 1 FROM conversation WHERE conversation.episode_id = episode.episode_id AND conversation.model = :scripted
)""",
    "error": "episode.error IS NOT NULL",
}
FLAG_VALUES = {"scripted": SCRIPTED_PLAYER}
"""Values that flags compare with, by their names in the SQL."""

FLAGS = tuple(_FLAGS)
"""Names of the flags of an episode."""

_CONDITIONS = {
    "environment": "environment = :environment",
    "split": "split = :split",
    "index": "task_index = :index",
    "seed": "seed = :seed",
    "episode_id": "episode.episode_id = :episode_id",
    "session": "substr(session, 1, length(:session)) = :session",
    "transport": "transport = :transport",
    "version": "version = :version",
    "run": "episode.number >> 32 = :run",
    "model": "EXISTS (SELECT 1 FROM conversation WHERE conversation.episode_id = episode.episode_id "
    "AND conversation.model = :model)",
    "token_name": "token_name = :token_name",
    "label": "label = :label",
    "component": "TRUE",  # others have no row of the table that is joined
    "min_reward": "{reward} >= :min_reward",
    "max_reward": "{reward} <= :max_reward",
    "since": "episode.started_at >= :since",
    "until": "episode.started_at <= :until",
    "ending": f"({_HOW}) = :ending",
    # Reads the episodes in the order in which they are listed, so that the first of many are found at once.
    "text": "(EXISTS (SELECT 1 FROM part WHERE part.episode = episode.number AND instr(content, :text) > 0) "
    "OR EXISTS (SELECT 1 FROM conversation WHERE conversation.episode_id = episode.episode_id "
    "AND instr(content, :text) > 0))",
    "evaluation": f"(coalesce(substr(episode.episode_id, 1, {len(EVALUATION_ID)}), '') = '{EVALUATION_ID}') "
    "= :evaluation",
}
# Reads the file from its beginning to its end, which is quicker by far where few episodes or none have the text.
_TEXT_IN_FILE = """
episode.number IN (
    SELECT episode FROM part WHERE instr(content, :text) > 0
    UNION SELECT number FROM episode WHERE episode_id IN (
        SELECT episode_id FROM conversation WHERE instr(content, :text) > 0
    )
)
"""
_FROM = "FROM episode LEFT JOIN run ON run.number = episode.number >> 32"
_WITH_COMPONENT = f"{_FROM} JOIN component ON component.episode = episode.number AND component.name = :component"
_GROUPED = {
    "environment": "environment",
    "version": "version",
    "transport": "transport",
    "split": "split",
    "index": "task_index",
    "seed": "seed",
    "task_seed": "CASE WHEN task_index IS NULL THEN seed END",
    "ending": _HOW,
    "error": "error",
    "label": "label",
    "run": "episode.number >> 32",
    "model": "(SELECT model FROM conversation WHERE conversation.episode_id = episode.episode_id LIMIT 1)",
}
GROUP_FIELDS = tuple(_GROUPED)
"""Names of the values that episodes can be grouped by."""

_MAX_READ = 2000
COMPONENTS = f"""
SELECT DISTINCT name FROM component WHERE episode IN (
    SELECT number FROM episode ORDER BY started_at DESC LIMIT {_MAX_READ}
) ORDER BY name
"""  # noqa: S608  # constants
"""SQL for the names of the components of the newest episodes' rewards."""

MODELS = f"""
SELECT DISTINCT model FROM conversation WHERE model IS NOT NULL AND episode_id IN (
    SELECT episode_id FROM episode ORDER BY started_at DESC LIMIT {_MAX_READ}
) ORDER BY model
"""  # noqa: S608  # constants
"""SQL for the names of the models and players of the newest episodes, which are looked up one by one."""


def _names_in(column: str) -> str:
    """Return the SQL for the names in a column: a look into its index for each, however many episodes there are."""
    return f"""
    WITH RECURSIVE found (name) AS (
        SELECT min({column}) FROM episode WHERE {column} IS NOT NULL
        UNION ALL SELECT (SELECT min({column}) FROM episode WHERE {column} > name) FROM found WHERE name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL
    """  # noqa: S608  # constants


ENVIRONMENTS = _names_in("environment")
"""SQL for the names of the environments."""

TOKEN_NAMES = _names_in("token_name")
"""SQL for the names of the tokens."""

LABELS = _names_in("label")
"""SQL for the labels."""

# What episodes are listed by, the largest first; of equal ones, the newest first.
_BEGUN = ("episode.started_at", "episode.number")
_LARGEST = 1.7976931348623157e308
_LISTED_BY: dict[str, tuple[str, ...]] = {
    "newest": _BEGUN,
    "oldest": _BEGUN,  # the smallest first, which the index has, too
    "best": (f"coalesce({{reward}}, -{_LARGEST!r})", *_BEGUN),
    "worst": (f"-coalesce({{reward}}, {_LARGEST!r})", *_BEGUN),
    "longest": ("steps", *_BEGUN),
    "shortest": ("-steps", *_BEGUN),
}
# A limit that is none, in every database.
_NO_LIMIT = 2**62


def flags_of(count: int) -> str:
    """Return the SQL for the number and the flags, in their order, of so many episodes by their numbers."""
    flags = ", ".join(f"CASE WHEN {condition} THEN 1 ELSE 0 END" for condition in _FLAGS.values())
    numbers = ", ".join(f":number_{at}" for at in range(count))
    return f"SELECT episode.number, {flags} {_FROM} WHERE episode.number IN ({numbers})"  # constants


# Fields of an episode without what is on record of it.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("id", "environment", "session", "transport", "ending"), ""),
    **dict.fromkeys(("version", "ended_at", "episode_id", "seed", "split", "index", "reward", "error", "parent")),
    **dict.fromkeys(("token_name", "label", "note", "component")),
    "started_at": 0.0,
    "steps": 0,
}


class Query:
    """Conditions on episodes as SQL, with the values that they compare with.

    Attributes:
        values: The values by their names in the SQL, but for ``alive``; see ``alive_since``.
        has_text: Whether a text is searched for.

    Raises:
        ConfigurationError: There is no such order, or no such flag.
    """

    def __init__(self, where: Filter | None = None, order: Order = "newest") -> None:
        if order not in _LISTED_BY:
            raise ConfigurationError(f"Expected one of the orders {', '.join(_LISTED_BY)}, got {order!r}.")
        given: dict[str, Any] = {name: value for name, value in asdict(where or Filter()).items() if value is not None}
        flag = given.pop("flag", None)
        if flag is not None and flag not in _FLAGS:
            raise ConfigurationError(f"Expected one of the flags {', '.join(_FLAGS)}, got {flag!r}.")
        has_component = "component" in given
        self._from = _WITH_COMPONENT if has_component else _FROM
        # The reward that conditions, orders and groups are about.
        self._reward = "component.total" if has_component else "episode.reward"
        self._component = "component.total" if has_component else "NULL"
        self._listed_by = [key.format(reward=self._reward) for key in _LISTED_BY[order]]
        self._falls = order != "oldest"
        self._conditions = [_CONDITIONS[name].format(reward=self._reward) for name in given]
        if flag is not None:
            self._conditions.append(_FLAGS[flag])
        self.has_text = "text" in given
        if self.has_text:
            text = given["text"].encode(errors="replace").decode()  # an argument of a command may be no UTF-8
            given["text"] = to_json(text)[1:-1]  # as it stands within JSON
        if "min_reward" in given:
            given["min_reward"] = lowest_reaching(given["min_reward"])
        if "max_reward" in given:
            given["max_reward"] = highest_within(given["max_reward"])
        self.values = {**given, **FLAG_VALUES}

    def search_file(self) -> None:
        """Search the whole file for the text, instead of one listed episode after another."""
        self._conditions = [_TEXT_IN_FILE if each == _CONDITIONS["text"] else each for each in self._conditions]

    def with_number(self, number: int | None) -> Self:
        """Restrict the query to the episode with this number."""
        return self._with("episode.number = :number", number=number)

    def behind(self, number: int) -> Self:
        """Restrict the query to episodes that are listed after that with this number."""
        return self._beside(number, "<" if self._falls else ">")

    def ahead(self, number: int) -> Self:
        """Restrict the query to episodes that are listed before that with this number, the nearest first."""
        self._falls = not self._falls
        return self._beside(number, "<" if self._falls else ">")

    def episodes(self, limit: int | None = None) -> str:
        """Return the SQL that selects the columns and the ending of episodes, in the order of the list."""
        self.values["limit"] = _NO_LIMIT if limit is None else limit
        columns = ", ".join(f"episode.{name}" for name in COLUMNS)
        direction = "DESC" if self._falls else "ASC"
        order = ", ".join(f"{key} {direction}" for key in self._listed_by)
        return (
            f"SELECT {columns}, {_HOW}, {self._component} {self._from} WHERE {self._where} "  # constants
            f"ORDER BY {order} LIMIT :limit"
        )

    def count(self) -> str:
        """Return the SQL that counts episodes."""
        return f"SELECT count(*) {self._from} WHERE {self._where}"  # constants

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
        self.values["limit"] = _NO_LIMIT if limit is None else limit
        columns = ", ".join(_GROUPED[name] for name in names)
        positions = ", ".join(str(number) for number, _ in enumerate(names, 1))
        # What was reached before a failure is no reward.
        reward = f"CASE WHEN episode.error IS NULL THEN {self._reward} END"
        return (
            f"SELECT {columns}, count(*), count(episode.error), count({reward}), "  # constants
            f"CAST(sum(steps) AS BIGINT), avg({reward}), min({reward}), max({reward}), "
            "max(episode.started_at) AS newest "
            f"{self._from} WHERE {self._where} "
            f"GROUP BY {positions} ORDER BY newest DESC, max(episode.number) DESC LIMIT :limit"
        )

    @property
    def _where(self) -> str:
        return " AND ".join(self._conditions) or "TRUE"

    def _beside(self, number: int, sign: str) -> Self:
        keys = ", ".join(self._listed_by)
        listed = f"SELECT {keys} {self._from} WHERE episode.number = :listed"  # constants
        return self._with(f"({keys}) {sign} ({listed})", listed=number)

    def _with(self, condition: str, **values: Any) -> Self:
        self._conditions.append(condition)
        self.values.update(values)
        return self


def episode_of(columns: tuple[Any, ...]) -> Episode:
    """Return an episode by the columns of ``Query.episodes``; see ``Episode.ending`` for impossible values."""
    row = dict(zip(COLUMNS, columns, strict=False))
    number, parent = row.pop("number"), row.pop("parent")
    fields = {**_NOTHING, **{name: value for name, value in row.items() if name in _NOTHING}}
    fields |= {"id": name_of(number), "index": row["task_index"]}
    fields |= {"ending": columns[-2], "component": columns[-1]}
    fields["parent"] = name_of(parent) if isinstance(parent, int) else parent
    try:
        return EPISODE.validate_python(fields)
    except ValidationError as error:
        return _unreadable(fields, error)


def _unreadable(fields: dict[str, Any], error: ValidationError) -> Episode:
    """Return an episode without the values that can't be; see ``Episode.ending``."""
    faults = error.errors(include_url=False, include_context=False)
    fields |= {str(fault["loc"][0]): _NOTHING[str(fault["loc"][0])] for fault in faults}
    return Episode(**{**fields, "ending": UNREADABLE, "error": faults_text(faults)})
