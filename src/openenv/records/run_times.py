"""Time of a training run by what it went to, in all of its steps and beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["ACTIONS_SPEED", "ACTIVITIES", "TOKENS_SPEED", "RunTimes", "time_metric"]

ACTIVITIES = ("generation", "environment", "training", "evaluation", "waiting")
"""Activities that time goes to; waiting is the rest: for servers to start, models to load, files to be written."""
TOKENS_SPEED, ACTIONS_SPEED = "speed/tokens_per_second", "speed/actions_per_second"
"""Metrics of a step: tokens that the model wrote in a second of generation, actions in a second of the environment."""


def time_metric(activity: str) -> str:
    """Return the name of the metric with the seconds of a step that went to an activity.

    Example:
        >>> time_metric("generation")
        'time/generation'
    """
    return f"time/{activity}"


@dataclass(frozen=True)
class RunTimes:
    """Time of a run.

    Attributes:
        seconds: Seconds by activity; none of a run of an earlier version.
        step_seconds: Mean seconds of a step by activity.
        tokens_per_second: Tokens that the model wrote in a second of generation; ``None`` if there was none.
        actions_per_second: Actions in a second of the environment; ``None`` if there was none.
    """

    seconds: Mapping[str, float]
    step_seconds: Mapping[str, float]
    tokens_per_second: float | None
    actions_per_second: float | None

    @classmethod
    def of(cls, metrics: Sequence[Mapping[str, Any]], beside: Mapping[str, float]) -> Self:
        """Sum the lines of ``metrics.jsonl``, and the seconds that no step has.

        Example:
            >>> rows = [{"time/generation": 2.0, "speed/tokens_per_second": 50.0}]
            >>> times = RunTimes.of(rows, {"evaluation": 1.0})
            >>> times.shares, times.tokens_per_second
            ({'generation': 0.6666666666666666, 'evaluation': 0.3333333333333333}, 50.0)
        """
        measured = [row for row in metrics if any(time_metric(each) in row for each in ACTIVITIES)]
        in_steps = {each: sum(row.get(time_metric(each), 0.0) for row in measured) for each in ACTIVITIES}
        seconds = {each: in_steps[each] + beside.get(each, 0.0) for each in ACTIVITIES}
        return cls(
            {each: value for each, value in seconds.items() if value > 0},
            {each: in_steps[each] / len(measured) for each in ACTIVITIES if in_steps[each] > 0},
            _speed(measured, TOKENS_SPEED, "generation"),
            _speed(measured, ACTIONS_SPEED, "environment"),
        )

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return sum(self.seconds.values())

    @property
    def shares(self) -> dict[str, float]:
        """Share of the whole time by activity."""
        return {each: seconds / self.total for each, seconds in self.seconds.items()}

    @property
    def speeds(self) -> str:
        """Both speeds in words; nothing where none is known."""
        known = (
            (self.tokens_per_second, "tokens/s of the model"),
            (self.actions_per_second, "actions/s of the environment"),
        )
        return ", ".join(f"{speed:,.0f} {words}" for speed, words in known if speed is not None)


def _speed(rows: Sequence[Mapping[str, Any]], speed: str, activity: str) -> float | None:
    """Return the mean of a speed over the seconds of its activity."""
    known = [(row[time_metric(activity)], row[speed]) for row in rows if speed in row and time_metric(activity) in row]
    seconds = sum(each for each, _ in known)
    return sum(each * value for each, value in known) / seconds if seconds else None
