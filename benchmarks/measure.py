"""Takes the measurements that the chosen rows need, round after round, so that disturbances meet all servers alike."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import attrgetter

from benchmarks.bench import Bench
from benchmarks.effort import Effort
from benchmarks.measurements import growth, latency, memory, package, records, rollouts, server_cpu, workers
from benchmarks.rows import FLOOR_ROWS, ROWS, Floor, Samples


@dataclass(frozen=True)
class Measurement:
    """One function that measures.

    Attributes:
        take: Takes one round of figures.
        rows: The rows that they belong to.
        rounds: How many rounds it gets.
    """

    take: Callable[[Bench], None]
    rows: tuple[str, ...]
    rounds: Callable[[Effort], int] = attrgetter("rounds")

    @property
    def title(self) -> str:
        """What is measured, in a few words."""
        module = self.take.__module__.rpartition(".")[2]
        return f"{module}: {self.take.__name__}".replace("_", " ")


def _one(_: Effort) -> int:
    return 1


_FLOORS = {Floor.CPU: server_cpu.floor, Floor.ROUND_TRIP: latency.floor}

MEASUREMENTS = (
    Measurement(server_cpu.legacy_wire, ("cpu_non_blocking", "cpu_threaded")),
    Measurement(server_cpu.v1_64, ("cpu_v1_64",)),
    Measurement(server_cpu.v1_1024, ("cpu_v1_1024",)),
    Measurement(server_cpu.v1_messages, ("cpu_v1_messages",)),
    Measurement(server_cpu.rubric, ("rubric",)),
    Measurement(records.journal, ("journal",)),
    Measurement(records.traces, ("traces",)),
    Measurement(records.traces_in_threads, ("traces_threaded",)),
    Measurement(records.traces_of_sockets, ("traces_legacy",)),
    Measurement(growth.sessions, ("cpu_growth",), attrgetter("growth_rounds")),
    Measurement(workers.workers, ("workers",), attrgetter("growth_rounds")),
    Measurement(latency.round_trip, ("round_trip",)),
    Measurement(latency.round_trip_v1, ("round_trip_v1",)),
    Measurement(latency.round_trip_async, ("round_trip_async",)),
    Measurement(latency.round_trip_sync, ("round_trip_sync",)),
    Measurement(latency.threaded_clients, ("threaded_clients",)),
    Measurement(rollouts.vector, ("vector",)),
    Measurement(rollouts.pictures, ("pictures", "pictures_threaded")),
    Measurement(rollouts.turn, ("rollout_turn",)),
    Measurement(latency.open_and_reset, ("open_reset", "open_reset_legacy")),
    Measurement(memory.idle_sessions, ("memory", "memory_legacy")),
    Measurement(package.import_time, ("import_time",)),
    Measurement(package.installed_size, ("installed_size",), _one),
)
"""Every measurement, in the order of the table."""


def measure(effort: Effort, rows: Collection[str], report: Callable[[str], None]) -> Samples:
    """Measure.

    Args:
        effort: How much.
        rows: Keys of the rows to measure, out of ``ROWS``.
        report: Told what is going on, one line at a time.

    Returns:
        The figures of these rows, and of the floor that their budgets grow with.
    """
    floors = {ROWS[row].floor for row in rows}
    chosen = [Measurement(take, (FLOOR_ROWS[floor],)) for floor, take in _FLOORS.items() if floor in floors]
    chosen += [measurement for measurement in MEASUREMENTS if not set(rows).isdisjoint(measurement.rows)]
    started = time.perf_counter()
    with Bench(effort, set(rows)) as bench:
        for number in range(1, effort.rounds + 1):
            for measurement in chosen:
                if number <= measurement.rounds(effort):
                    elapsed = time.perf_counter() - started
                    report(f"{elapsed:4.0f} s  round {number} of {measurement.rounds(effort)}, {measurement.title}")
                    measurement.take(bench)
    return bench.samples
