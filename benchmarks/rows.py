"""The rows of the table: what is measured, and how much of it we allow ourselves."""

from dataclasses import dataclass, field
from enum import Enum
from statistics import median


class Floor(Enum):
    """A figure of the bare echo server that tells how fast this machine is, and its value where the budgets were set.

    A budget in seconds is stretched by how much slower the floor is here than it was there.
    """

    CPU = 17e-6
    ROUND_TRIP = 80e-6


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: What is measured.
        unit: The unit to show.
        per_unit: The unit in seconds, bytes or as a plain number.
        budget: The most (or least) that we allow ourselves, in seconds, bytes or as a plain number.
        floor: What the budget grows with; ``None`` where it is the same on every machine.
        more_is_better: Whether the budget is the least instead of the most.
    """

    title: str
    unit: str
    per_unit: float
    budget: float
    floor: Floor | None = None
    more_is_better: bool = False


ROWS: dict[str, Row] = {
    "cpu_non_blocking": Row("server CPU per step, 64 sockets, BLOCKING = False", "µs", 1e-6, 30e-6, Floor.CPU),
    "cpu_threaded": Row("server CPU per step, 64 sockets, in threads", "µs", 1e-6, 60e-6, Floor.CPU),
    "round_trip": Row("round trip p50, bare client", "µs", 1e-6, 110e-6, Floor.ROUND_TRIP),
    "round_trip_async": Row("round trip p50, async client", "µs", 1e-6, 150e-6, Floor.ROUND_TRIP),
    "round_trip_sync": Row("round trip p50, sync client", "µs", 1e-6, 200e-6, Floor.ROUND_TRIP),
    "threaded_clients": Row("64 sync clients in 64 threads", "steps/s", 1, 15_000, Floor.CPU, more_is_better=True),
    "session_memory": Row("memory per idle session", "KiB", 1024, 12 * 1024),
    "import_time": Row("import openenv.core", "s", 1, 0.4, Floor.CPU),
    "installed_size": Row("installed size of the core", "MB", 1e6, 90e6),
}

# The rows whose figure for the bare echo server is the floor of that kind.
_FLOOR_ROWS = {Floor.CPU: "cpu_non_blocking", Floor.ROUND_TRIP: "round_trip"}


@dataclass
class Samples:
    """What was measured: for each row and server, one figure a round."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, row: str, server: str, figure: float) -> None:
        """Note one figure."""
        self.figures.setdefault(row, {}).setdefault(server, []).append(figure)

    def middle(self, row: str, server: str) -> float | None:
        """Return the median over the rounds, or ``None`` where nothing was measured."""
        figures = self.figures.get(row, {}).get(server)
        return median(figures) if figures else None


@dataclass(frozen=True)
class Result:
    """One line of the table, filled in; all figures in seconds, bytes or as plain numbers."""

    key: str
    row: Row
    floor: float | None
    public: float | None
    ours: float | None
    budget: float

    @property
    def met(self) -> bool | None:
        """Whether ours keeps the budget; ``None`` where ours was not measured."""
        if self.ours is None:
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
            floor=samples.middle(key, "floor"),
            public=samples.middle(key, "public"),
            ours=samples.middle(key, "ours"),
            budget=_budget_here(row, samples),
        )
        for key, row in ROWS.items()
        if key in samples.figures
    ]


def _budget_here(row: Row, samples: Samples) -> float:
    if row.floor is None:
        return row.budget
    here = samples.middle(_FLOOR_ROWS[row.floor], "floor")
    slowness = here / row.floor.value if here else 1.0
    return row.budget / slowness if row.more_is_better else row.budget * slowness
