"""View of a server in the terminal: a head with its figures, and a row for each session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from openenv.cli.server_readings import Counts, ServerFigures

UNLISTED_LINES = 10
"""Lines of a picture that are not sessions."""

_BAR_WIDTH = 12
_WIDE = 90
_BUSY_SHARE = 0.9
_STATE_STYLES = {"playing": "green", "done": "cyan", "new": "dim", "away": "yellow"}


@dataclass
class Picture:
    """A server at one time, as ``rich`` can print it.

    Attributes:
        url: The server's address.
        figures: Its last answer; ``None`` where it has not answered yet.
        earlier: Earlier counts of its workers, to count from; empty to count from their start.
        lines: Largest number of sessions to show.
        trouble: Reason why it does not answer now.
    """

    url: str
    figures: ServerFigures | None
    earlier: Mapping[str, Counts] = field(default_factory=dict)
    lines: int = 50
    trouble: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        yield self._title()
        if self.trouble is not None:
            yield Text(f"{self.trouble} Trying again; q quits.", style="bold red")
        elif self.figures is not None and self.figures.silent_workers:
            yield Text(_silence(self.figures.silent_workers), style="bold yellow")
        if self.figures is None:
            return
        yield Padding(_head(self.figures, self.earlier), (1, 0))
        if self.figures.sessions is None:
            yield Text("This server does not list its sessions; it runs in production mode.", style="dim")
        elif not self.figures.sessions["sessions"]:
            yield Text("No session is open.", style="dim")
        else:
            gap = 2 if options.max_width >= _WIDE else 1
            yield from _sessions(self.figures.sessions, max(1, self.lines), gap)

    def _title(self) -> Text:
        title = Text(no_wrap=True, overflow="ellipsis")
        about = self.figures.about if self.figures else {}
        title.append(about.get("environment", "openenv"), style="bold")
        title.append(f"  {self.url}", style="cyan")
        uptime_s = self.figures.uptime_s if self.figures else None
        if uptime_s is not None:
            title.append(f"  up {duration(uptime_s)}", style="dim")
        if "version" in about:
            title.append(f"  openenv {about['version']}", style="dim")
        if self.figures and self.figures.total("openenv_draining"):
            title.append("  draining", style="bold yellow")
        return title


def duration(seconds: float | None) -> str:
    """Write a time down in three or four characters and a unit, as in ``250 µs``, ``1.5 s`` or ``3h 05m``.

    Example:
        >>> [duration(seconds) for seconds in (None, 0.00025, 0.0123, 1.5, 75, 11100, 200000)]
        ['-', '250 µs', '12.3 ms', '1.5 s', '1m 15s', '3h 05m', '2d 07h']
    """
    if seconds is None:
        return "-"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes}m {rest:02}s"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02}h" if days else f"{hours}h {minutes:02}m"


def _silence(workers: list[str]) -> str:
    who = f"Worker {workers[0]} does" if len(workers) == 1 else f"Workers {', '.join(workers)} do"
    return f"{who} not answer; what is shown is that of the others."


def _head(figures: ServerFigures, earlier: Mapping[str, Counts]) -> Table:
    rates = figures.rates(earlier)
    grid = Table.grid(padding=(0, 2))
    for _ in range(2):
        grid.add_column(style="dim", no_wrap=True, min_width=8)
        grid.add_column(no_wrap=True, min_width=24)
    away, waiting = figures.total("openenv_sessions_away"), figures.total("openenv_clients_waiting")
    running, queued = figures.total("openenv_requests_running"), figures.total("openenv_requests_queued")
    requests = f"{int(running):,} running, {int(queued):,} queued"
    times = f"{duration(rates.step_p50_s)} p50, {duration(rates.step_p95_s)} p95"
    average = "" if earlier else " on average"
    grid.add_row("sessions", _slots(figures), "steps/s", f"{rates.steps_per_s:,.1f}{average}")
    grid.add_row("", f"{int(away):,} away, {int(waiting):,} in line", "step", times)
    grid.add_row("requests", requests, "resets/s", f"{rates.resets_per_s:,.1f}")
    grid.add_row("memory", _memory(figures), "errors", _errors(figures, style="red" if rates.errors else ""))
    return grid


def _slots(figures: ServerFigures) -> Table:
    held, limit = figures.total("openenv_sessions"), figures.total("openenv_sessions_capacity")
    style = "yellow" if held >= _BUSY_SHARE * limit else "green"
    bar = ProgressBar(total=max(limit, 1), completed=held, width=_BAR_WIDTH, complete_style=style, finished_style=style)
    slots = Table.grid(padding=(0, 1))
    slots.add_row(f"{int(held):,} of {int(limit):,}", bar)
    return slots


def _errors(figures: ServerFigures, style: str) -> Text:
    """Count the errors, and name the most frequent code."""
    errors = Text().append(f"{int(figures.total('openenv_errors_total')):,}", style=style)
    codes = figures.by("openenv_errors_total", "code")
    if codes:
        code, count = max(codes.items(), key=_count)
        errors.append(f"  {code} {int(count):,}{', ...' if len(codes) > 1 else ''}", style="dim")
    return errors


def _count(item: tuple[str, float]) -> float:
    return item[1]


def _memory(figures: ServerFigures) -> str:
    mebibytes = figures.total("process_resident_memory_bytes") / 2**20
    up = figures.by("openenv_worker_up", "worker")
    workers = f", {int(sum(up.values()))} of {len(up)} workers" if len(up) > 1 else ""
    return f"{mebibytes:,.0f} MiB{workers}"


def _sessions(table: Mapping[str, Any], lines: int, gap: int) -> RenderResult:
    rows = table["sessions"][:lines]
    shown = Table(box=None, pad_edge=False, header_style="bold dim", padding=(0, gap, 0, 0))
    for name in ("session", "via", "phase"):
        shown.add_column(name, no_wrap=True)
    for name in ("episode", "step", "steps", "reward", "idle", "age"):
        shown.add_column(name, no_wrap=True, justify="right")
    for row in rows:
        shown.add_row(*_cells(row))
    yield shown
    left_out = table["total"] - len(rows)
    if left_out > 0:
        yield Text(f"and {left_out:,} more", style="dim")


def _cells(row: Mapping[str, Any]) -> list[str | Text]:
    state = "away" if row["away"] else row["phase"]
    return [
        Text(row["session"]),
        Text(row["transport"]),
        Text(state, style=_STATE_STYLES.get(state, "")),
        f"{row['episodes']:,}",
        f"{row['episode_steps']:,}",
        f"{row['steps']:,}",
        "-" if row["reward"] is None else f"{row['reward']:.4g}",
        Text("working", style="bold") if row["busy"] else duration(row["idle_s"]),
        duration(row["age_s"]),
    ]
