"""Endurance: many episodes on one server, and what each of them leaves in its process."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from openenv.validation.findings import Finding, Measurement, fail
from openenv.validation.trials import Trial, Trials

MAX_EPISODES = 1000

_WALL_SHARE = 8.0
_SAMPLE_S = 0.025
_EPISODES_OF_A_SESSION = 5
# Fewer prove nothing: caches fill in the first episodes, and memory comes from the system in large pieces.
_MIN_EPISODES, _MIN_FOR_MEMORY, _MIN_SAMPLES = 6, 60, 8
_LEAST_COUNT, _LEAST_BYTES, _LEAST_GROWTH_BYTES = 0.5, 32768, 2**21
_MARGIN = 3.0
_LEFT = {
    "files": ("open files", "Close in close() and at the next reset what an episode has opened."),
    "threads": ("threads", "End the threads of an episode in close() and at the next reset."),
    "children": ("child processes", "End and wait for the processes of an episode in close() and at the next reset."),
}
_MEMORY = "Keep what belongs to an episode in the instance, and bound caches."


@dataclass(frozen=True)
class ProcessSize:
    """Resources of a process at a time.

    Attributes:
        episodes: Number of episodes that were played until then.
        memory: Bytes of its memory.
        files: Number of its open files and sockets.
        threads: Number of its threads.
        children: Number of its child processes, those that have ended and were not waited for included.
    """

    episodes: int
    memory: int
    files: int
    threads: int
    children: int

    @classmethod
    def of(cls, pid: int, episodes: int = 0) -> "ProcessSize | None":
        """Read the resources of a process; ``None`` where it has ended, or the system does not show them."""
        folder = Path("/proc") / str(pid)
        try:
            pages = int((folder / "statm").read_text("ascii").split()[1])
            threads = list((folder / "task").iterdir())
            children = [(thread / "children").read_text("ascii").split() for thread in threads]
            files = len(list((folder / "fd").iterdir()))
        except OSError:
            return None
        return cls(episodes, pages * os.sysconf("SC_PAGE_SIZE"), files, len(threads), sum(map(len, children)))


def find_in_endurance(trials: Trials, trial: Trial, pid: int, cpu_s: float) -> Iterator[Finding | Measurement]:
    """Play a trial again and again, and find what grows in the server's process with each episode.

    Args:
        trials: Trials with the server.
        trial: A trial without a fault.
        pid: The server's process.
        cpu_s: Seconds of this process's CPU after which no further episode begins; it is done after eight times as many
            seconds, too.
    """
    begun, begun_cpu, sizes, fault, count = time.monotonic(), time.process_time(), list[ProcessSize](), "", 0
    due = begun
    while count < MAX_EPISODES and not fault:
        if time.process_time() - begun_cpu > cpu_s or time.monotonic() - begun > _WALL_SHARE * cpu_s:
            break
        answers = trials.replay(trial, is_same_session=count % _EPISODES_OF_A_SESSION > 0)
        fault = str(answers[-1].get("fault", "")) if answers else ""
        count += 1
        if time.monotonic() >= due:
            size = ProcessSize.of(pid, count)
            sizes += [] if size is None else [size]
            due = time.monotonic() + _SAMPLE_S
    if fault:
        yield fail(f"episode {count} with the same actions failed: {fault}", "Release in close() what a session holds.")
    slopes = {name: growth(sizes, name)[0] for name in ("memory", *_LEFT)}
    yield Measurement({"episodes": count, **{f"{name}_per_episode": round(slope, 3) for name, slope in slopes.items()}})
    yield from _leaks(sizes, count)


def _leaks(sizes: Sequence[ProcessSize], count: int) -> Iterator[Finding]:
    for name, (what, remedy) in _LEFT.items():
        slope, error = growth(sizes, name)
        if count >= _MIN_EPISODES and slope - _MARGIN * error >= _LEAST_COUNT and _has_grown(sizes, name, 0):
            yield fail(f"each episode leaves {slope:.1f} {what}: {_span(sizes, name)} after {count} episodes", remedy)
    slope, error = growth(sizes, "memory")
    is_sure = slope - _MARGIN * error >= _LEAST_BYTES and _has_grown(sizes, "memory", _LEAST_GROWTH_BYTES)
    if count >= _MIN_FOR_MEMORY and is_sure:
        text = f"the server's memory grows by {slope / 1024:.0f} KiB an episode"
        yield fail(f"{text}: {_span(sizes, 'memory')} bytes after {count} episodes", _MEMORY)


def growth(sizes: Sequence[ProcessSize], name: str) -> tuple[float, float]:
    """Return the growth of a resource an episode over the later two thirds of the samples, and its standard error.

    Example:
        >>> growth([ProcessSize(number, 0, 10 + number, 1, 0) for number in range(30)], "files")
        (1.0, 0.0)
    """
    later = sizes[len(sizes) // 3 :]
    points = [(each.episodes, getattr(each, name)) for each in later]
    if len(later) < _MIN_SAMPLES or points[0][0] == points[-1][0]:
        return 0.0, 0.0
    episodes, values = zip(*points, strict=True)
    slope, intercept = linear_regression(episodes, values)
    mean = sum(episodes) / len(episodes)
    spread = sum((each - mean) ** 2 for each in episodes)
    residual = sum((value - intercept - slope * each) ** 2 for each, value in points)
    error: float = (residual / (len(points) - 2) / spread) ** 0.5
    return slope, error


def _has_grown(sizes: Sequence[ProcessSize], name: str, least: int) -> bool:
    """Return whether all later samples are above all earlier ones, by more than a margin."""
    values: list[int] = [getattr(each, name) for each in sizes]
    middle = len(values) // 2
    return min(values[middle:]) > max(values[:middle]) if not least else values[-1] - values[len(values) // 3] > least


def _span(sizes: Sequence[ProcessSize], name: str) -> str:
    return f"from {getattr(sizes[0], name)} to {getattr(sizes[-1], name)}"
