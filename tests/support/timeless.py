"""Metrics of a training run without what differs from run to run: its times."""

from collections.abc import Mapping, Sequence
from typing import Any


def timeless(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of metrics without seconds and speeds.

    Example:
        >>> timeless([{"step": 1, "step_time": 0.5, "time/training": 0.25, "speed/tokens_per_second": 9.0}])
        [{'step': 1}]
    """
    return [{name: value for name, value in row.items() if not name.startswith(_TIMES)} for row in rows]


_TIMES = ("step_time", "time/", "speed/")
