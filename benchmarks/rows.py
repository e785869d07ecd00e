"""The rows of the table: what is measured, and how much of it we allow ourselves."""

from dataclasses import dataclass, field
from enum import Enum
from statistics import median

SERVERS = ("floor", "public", "gymnasium", "ours")
"""Whose figures a row may have: the bare echo server, the public package, Gymnasium's AsyncVectorEnv, and ours."""


class Floor(Enum):
    """A figure of the bare echo server that tells how fast this machine is, and its value where the budgets were set.

    A budget in seconds is stretched by how much slower the floor is here than it was there.
    """

    CPU = 17e-6
    ROUND_TRIP = 80e-6


FLOOR_ROWS = {Floor.CPU: "cpu_non_blocking", Floor.ROUND_TRIP: "round_trip"}
"""The rows whose figure for the bare echo server is the floor of that kind."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: What is measured.
        unit: The unit to show.
        per_unit: The unit in seconds, bytes or as a plain number.
        budget: The most (or least) that we allow ourselves, in seconds, bytes or as a plain number; ``None`` where the
            row is there to be looked at only.
        floor: What the budget grows with; ``None`` where it is the same on every machine.
        more_is_better: Whether the budget is the least instead of the most.
        times: The server whose figure the budget multiplies; ``None`` where the budget stands for itself.
    """

    title: str
    unit: str
    per_unit: float
    budget: float | None
    floor: Floor | None = None
    more_is_better: bool = False
    times: str | None = None


ROWS: dict[str, Row] = {
    "cpu_non_blocking": Row("server CPU per step, 64 sockets, BLOCKING = False", "µs", 1e-6, 30e-6, Floor.CPU),
    "cpu_threaded": Row("server CPU per step, 64 sockets, in threads", "µs", 1e-6, 60e-6, Floor.CPU),
    "cpu_v1_64": Row("server CPU per step, 64 sessions on a socket (v1)", "µs", 1e-6, 8e-6, Floor.CPU),
    "cpu_v1_1024": Row("server CPU per step, 1,024 sessions on a socket (v1)", "µs", 1e-6, 8e-6, Floor.CPU),
    "cpu_v1_messages": Row("the same by a message for each session, 64 sessions (v1)", "µs", 1e-6, None),
    "rubric": Row("what a rubric of ten parts adds to it, 64 sessions (v1)", "µs", 1e-6, 20e-6, Floor.CPU),
    "journal": Row("steps/s with a journal over without, 64 sessions (v1)", "times", 1, 0.9, more_is_better=True),
    "traces": Row("steps/s with traces over without, 64 sessions (v1)", "times", 1, 0.9, more_is_better=True),
    "traces_threaded": Row("the same, in threads", "times", 1, 0.9, more_is_better=True),
    "traces_legacy": Row("the same, a socket each", "times", 1, 0.9, more_is_better=True),
    "cpu_growth": Row("CPU per step, 10,000 sessions over 100 (v1)", "times", 1, 1.25),
    "workers": Row("steps/s of 2 workers over 1, 200 µs steps", "times", 1, 1.8, more_is_better=True),
    "round_trip": Row("round trip p50, bare client", "µs", 1e-6, 110e-6, Floor.ROUND_TRIP),
    "round_trip_v1": Row("round trip p50, bare client (v1)", "µs", 1e-6, None),
    "round_trip_async": Row("round trip p50, async client", "µs", 1e-6, 150e-6, Floor.ROUND_TRIP),
    "round_trip_sync": Row("round trip p50, sync client", "µs", 1e-6, 200e-6, Floor.ROUND_TRIP),
    "threaded_clients": Row("64 sync clients in 64 threads", "steps/s", 1, 15_000, Floor.CPU, more_is_better=True),
    "vector": Row("a vector of 64", "steps/s", 1, 5, more_is_better=True, times="gymnasium"),
    "pictures": Row("8 sessions with pictures of 84x84x4", "steps/s", 1, 0.9, more_is_better=True, times="gymnasium"),
    "pictures_threaded": Row("the same, in threads", "steps/s", 1, 0.9, more_is_better=True, times="gymnasium"),
    "rollout_turn": Row("a turn of 64 rollouts, 50 ms environment step", "s", 1, 0.1),
    "open_reset": Row("open + reset of a session (v1)", "ms", 1e-3, 0.3e-3, Floor.ROUND_TRIP),
    "open_reset_legacy": Row("open + reset of a session, a socket each", "ms", 1e-3, None),
    "memory": Row("memory per idle session (v1)", "KiB", 1024, 12 * 1024),
    "memory_legacy": Row("memory per idle session, a socket each", "KiB", 1024, None),
    "import_time": Row("import openenv.core", "s", 1, 0.4, Floor.CPU),
    "installed_size": Row("installed size of the core", "MB", 1e6, 90e6),
}


@dataclass
class Samples:
    """What was measured.

    Attributes:
        figures: For each row and server, one figure a round.
        curves: How something grows: for each curve and series the points, each with one figure a round.
    """

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    curves: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)

    def add(self, row: str, server: str, figure: float) -> None:
        """Note one figure of a row."""
        self.figures.setdefault(row, {}).setdefault(server, []).append(figure)

    def add_point(self, curve: str, series: str, count: int, figure: float) -> None:
        """Note one figure of a curve, for some number of sessions or workers."""
        self.curves.setdefault(curve, {}).setdefault(series, {}).setdefault(count, []).append(figure)

    def middle(self, row: str, server: str) -> float | None:
        """Return the median over the rounds, or ``None`` where nothing was measured."""
        figures = self.figures.get(row, {}).get(server)
        return median(figures) if figures else None

    def points(self, curve: str, series: str) -> dict[int, float]:
        """Return the median over the rounds for each number of sessions or workers."""
        return {count: median(figures) for count, figures in self.curves.get(curve, {}).get(series, {}).items()}


@dataclass(frozen=True)
class Result:
    """One line of the table, filled in; all figures in seconds, bytes or as plain numbers."""

    key: str
    row: Row
    floor: float | None
    public: float | None
    gymnasium: float | None
    ours: float | None
    budget: float | None

    @property
    def met(self) -> bool | None:
        """Whether ours keeps the budget; ``None`` where there is none or ours was not measured."""
        if self.ours is None or self.budget is None:
            return None
        return self.ours >= self.budget if self.row.more_is_better else self.ours <= self.budget

    def ratio_to(self, other: float | None) -> float | None:
        """Return ours divided by another figure, or ``None`` where either is missing."""
        return self.ours / other if self.ours is not None and other else None


def results(samples: Samples) -> list[Result]:
    """Fill in every row of which anything was measured."""
    return [
        Result(
            key,
            row,
            **{server: samples.middle(key, server) for server in SERVERS},
            budget=_budget_here(key, row, samples),
        )
        for key, row in ROWS.items()
        if key in samples.figures
    ]


def _budget_here(key: str, row: Row, samples: Samples) -> float | None:
    if row.budget is None:
        return None
    if row.times is not None:
        other = samples.middle(key, row.times)
        return None if other is None else row.budget * other
    if row.floor is None:
        return row.budget
    here = samples.middle(FLOOR_ROWS[row.floor], "floor")
    slowness = here / row.floor.value if here else 1.0
    return row.budget / slowness if row.more_is_better else row.budget * slowness
