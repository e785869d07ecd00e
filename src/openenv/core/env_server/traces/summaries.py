"""Values that episodes are filtered and sorted by beside their columns: components of rewards, groups of rollouts.

Version 4 of the tables has them; for episodes of an earlier version they are read from the entries and conversations.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_core import from_json

from openenv.core.env_server.traces.blobs import put_back
from openenv.core.env_server.traces.columns import lines_in
from openenv.core.env_server.traces.database import TraceConnection
from openenv.core.wire.results import REWARD_SIGNALS, component_scores, component_totals

COMPONENT_COLUMNS = ("episode", "name", "total")
"""Columns of the table ``component``."""

_METADATA = "metadata"
_SIGNALS = f"{_METADATA}.{REWARD_SIGNALS}"
# Forks of forks that are followed to the first episode.
_MOST_FORKS = 1000
_ROLLOUT = "UPDATE conversation SET rollout_group = ?, reward = ?, cut_by = ? WHERE episode_id = ? AND at = ?"


class Rollout(NamedTuple):
    """Notes of a training on a rollout.

    Attributes:
        group: Name of its group in the training, whose rewards are compared; ``None`` for none.
        reward: Its reward in the training; ``None`` where there is none.
        cut_by: The limit of the model's side that cut it off; ``None`` for none.
    """

    group: str | None
    reward: float | None
    cut_by: str | None

    @classmethod
    def of(cls, extra: Any) -> "Rollout":
        """Read the ``extra`` of a conversation, which any program may have written."""
        known = extra if isinstance(extra, Mapping) else {}
        step, group, reward, cut_by = map(known.get, ("step", "group", "reward", "cut_by"))
        return cls(
            f"{step}/{group}" if type(step) is type(group) is int else None,
            component_scores({REWARD_SIGNALS: {"reward": reward}}).get("reward"),
            cut_by if isinstance(cut_by, str) and cut_by else None,
        )


def stored_totals(totals: Mapping[str, float], leave_out: Sequence[str] = ()) -> dict[str, float]:
    """Return the totals of components that a table can hold, without those that are left out.

    Args:
        totals: The totals by the components' names.
        leave_out: Paths of the fields that traces leave out.
    """
    if {_METADATA, _SIGNALS} & set(leave_out):
        return {}
    return {
        name: float(total)
        for name, total in totals.items()
        if math.isfinite(total) and f"{_SIGNALS}.{name}" not in leave_out
    }


def fill(connection: TraceConnection) -> None:
    """Add what tables of an earlier version lack, within a transaction."""
    found = connection.execute("SELECT DISTINCT episode FROM part WHERE instr(content, ?) > 0", (REWARD_SIGNALS,))
    numbers = {number for (number,) in found.fetchall()}
    numbers.update(
        number for (number,) in connection.execute("SELECT number FROM episode WHERE parent IS NOT NULL").fetchall()
    )
    for number in sorted(numbers):
        with suppress(ValueError, TypeError, KeyError):  # damaged: its list of entries can't be read either
            totals = stored_totals(component_totals(_scores(connection, number)))
            rows = [(number, name, total) for name, total in totals.items()]
            connection.insert("component", COMPONENT_COLUMNS, rows, "ON CONFLICT DO NOTHING")
    for episode_id, at in connection.execute("SELECT episode_id, at FROM conversation").fetchall():
        where = "SELECT content FROM conversation WHERE episode_id = ? AND at = ?"
        for (content,) in connection.execute(where, (episode_id, at)).fetchall():
            with suppress(ValueError, TypeError):
                rollout = Rollout.of(from_json(content).get("extra"))
                if any(rollout):
                    connection.execute(_ROLLOUT, (*rollout, episode_id, at))


def _scores(connection: TraceConnection, number: int) -> Iterator[Mapping[str, float]]:
    """Yield the components' scores of each step of an episode, those before a fork included."""
    lineage: list[tuple[int, int | None]] = [(number, None)]
    while len(lineage) < _MOST_FORKS:
        query = "SELECT parent, parent_entries FROM episode WHERE number = ?"
        parent = connection.execute(query, (lineage[0][0],)).fetchone()
        if parent is None or parent[0] is None:
            break
        lineage.insert(0, tuple(parent))
    for ancestor, count in lineage:
        entries = (line for part in _parts(connection, ancestor) for line in lines_in(part))
        for position, line in enumerate(entries):
            if count is not None and position >= count:
                break
            if REWARD_SIGNALS.encode() in line:
                kind, _, _, failed, _, answer, *_ = from_json(line)
                yield component_scores(answer.get(_METADATA)) if kind == "step" and not failed else {}


def _parts(connection: TraceConnection, number: int) -> Iterator[bytes]:
    query = "SELECT content FROM part WHERE episode = ? ORDER BY number"
    for (content,) in connection.execute(query, (number,)).fetchall():
        yield put_back(content, lambda _: b"0")
