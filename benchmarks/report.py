"""What the measurements are shown as: a table in the terminal, JSON, and a picture."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.table import Table

from benchmarks.public_package import VERSION as PUBLIC_VERSION
from benchmarks.rows import FLOOR_ROWS, SERVERS, Floor, Result, Samples

mpl.use("Agg")

from matplotlib import pyplot as plt  # after the choice of the backend
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, StrMethodFormatter


def table(results: Sequence[Result], samples: Samples) -> Table:
    """Lay the results out for a terminal."""
    title = f"OpenEnv beside the public openenv {PUBLIC_VERSION}, a bare uvicorn echo (the floor) and AsyncVectorEnv"
    shown = Table(title=title, title_justify="left", caption=_stretched(samples), caption_justify="left")
    shown.add_column("what", no_wrap=True)
    shown.add_column("unit", no_wrap=True)
    for column in (*SERVERS, "budget", "ours/public", "ours/floor"):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("met", justify="center", no_wrap=True)
    for result in results:
        shown.add_row(
            result.row.title,
            result.row.unit,
            *_figures(result),
            _ratio(result.ratio_to(result.public)),
            _ratio(result.ratio_to(result.floor)),
            {True: "[green]yes", False: "[red]no", None: "-"}[result.met],
        )
    return shown


def _stretched(samples: Samples) -> str | None:
    """Say how fast this machine is, and so by how much budgets in seconds are stretched."""
    floors = {floor: samples.middle(FLOOR_ROWS[floor], "floor") for floor in Floor}
    said = [
        f"{name} {here * 1e6:.0f} µs ({floor.value * 1e6:.0f} where the budgets were set: x{here / floor.value:.2f})"
        for floor, name in ((Floor.CPU, "CPU per step"), (Floor.ROUND_TRIP, "round trip"))
        if (here := floors[floor]) is not None
    ]
    return f"Budgets grow with the floor: {'; '.join(said)}." if said else None


def _figures(result: Result) -> list[str]:
    return [_figure(result, getattr(result, name)) for name in (*SERVERS, "budget")]


def _figure(result: Result, value: float | None) -> str:
    if value is None:
        return "-"
    amount = value / result.row.per_unit
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def save_json(results: Sequence[Result], samples: Samples, load: float, path: Path) -> None:
    """Write the results with every sample and what they were taken on.

    Args:
        results: The rows.
        samples: What they were made from.
        load: The machine's load average before anything was measured.
        path: Where to.
    """
    document = {
        "machine": _machine(),
        "load": load,
        "rows": [{**asdict(result), "met": result.met, "samples": samples.figures[result.key]} for result in results],
        "curves": samples.curves,
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    # The only thing in a result that JSON does not know is the floor's enum.
    return value.name


def _machine() -> dict[str, str]:
    packages = ("openenv-core", "uvicorn", "websockets", "uvloop", "pydantic", "fastapi", "gymnasium")
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "public": PUBLIC_VERSION,
        **{package: version(package) for package in packages},
    }


def save_markdown(results: Sequence[Result], path: Path) -> None:
    """Write the table as Markdown, for ``benchmarks/README.md``."""
    lines = [
        f"| what | unit | {' | '.join(SERVERS)} | budget | ours/public | met |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for result in results:
        met = {True: "yes", False: "no", None: "-"}[result.met]
        cells = [result.row.title, result.row.unit, *_figures(result), _ratio(result.ratio_to(result.public)), met]
        lines.append(f"| {' | '.join(cells)} |")
    path.write_text("\n".join(lines) + "\n")


def save_plot(results: Sequence[Result], path: Path) -> None:
    """Draw how many times better than the public package ours is, and where the budgets lie, if both were measured."""
    compared = [result for result in results if result.public and result.ours]
    if not compared:
        return
    positions = range(len(compared))
    ours = [_times_better(result, result.ours) for result in compared]
    budgets = [_times_better(result, result.budget) if result.budget else math.nan for result in compared]
    figure, axes = plt.subplots(figsize=(9, 1.4 + 0.45 * len(compared)), layout="constrained")
    axes.set_xscale("log")
    axes.barh(positions, [times - 1 for times in ours], left=1, height=0.6, color="#3b6fb6", label="ours")
    axes.plot(budgets, positions, "|", color="#c8553d", markersize=17, markeredgewidth=2.5, label="budget")
    axes.axvline(1, color="#555555", linewidth=1)
    labels = [f"{result.row.title}:  {times:.1f}x" for result, times in zip(compared, ours, strict=True)]
    axes.set_yticks(positions, labels)
    axes.invert_yaxis()
    axes.margins(x=0.05)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}x"))
    axes.set_xlabel(f"times better than the public openenv {PUBLIC_VERSION} (log scale)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def save_growth_plot(samples: Samples, path: Path) -> None:
    """Draw how cost grows with sessions and with workers, as far as that was measured."""
    panels = [(draw, title) for draw, curve, title in _PANELS if curve in samples.curves]
    if not panels:
        return
    figure, all_axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 4.8), layout="constrained", squeeze=False
    )
    for axes, (draw, title) in zip(all_axes[0], panels, strict=True):
        draw(axes, samples)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_cpu(axes: Axes, samples: Samples) -> None:
    _draw_lines(axes, samples, "cpu_per_step", 1e-6)
    axes.set_ylabel("µs of CPU per step (log scale)")


def _draw_memory(axes: Axes, samples: Samples) -> None:
    _draw_lines(axes, samples, "memory", 2**20)
    axes.set_ylabel("MiB in all (log scale)")


def _draw_lines(axes: Axes, samples: Samples, curve: str, unit: float) -> None:
    for number, series in enumerate(samples.curves[curve]):
        points = samples.points(curve, series)
        style = "--" if series.startswith("floor") else "-"
        figures = [figure / unit for figure in points.values()]
        axes.plot(list(points), figures, style, marker="o", markersize=4, color=_COLOURS[number], label=series)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(_plain_number))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("sessions (log scale)")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncols=2, frameon=False, fontsize="small")


def _plain_number(value: float, _position: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:.1g}"


def _draw_workers(axes: Axes, samples: Samples) -> None:
    rates, clients = samples.points("workers_rate", "ours"), samples.points("workers_client", "ours")
    cpu = samples.points("workers_cpu_per_step", "ours")
    bars = axes.bar(range(len(rates)), list(rates.values()), width=0.5, color="#3b6fb6")
    labels = [f"{rate:,.0f}\n(client: {clients[count]:.0%} of all cores)" for count, rate in rates.items()]
    axes.bar_label(bars, labels, padding=3)
    ticks = [
        f"{count} worker{'s' * (count > 1)}\n(a trivial step:\n{cpu[count] * 1e6:.1f} µs of CPU)" for count in rates
    ]
    axes.set_xticks(range(len(rates)), ticks)
    axes.margins(x=0.2, y=0.15)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("steps/s")


_COLOURS = ("#999999", "#c8553d", "#3b6fb6", "#666666", "#2a9d6f")
_PANELS = (
    (_draw_cpu, "cpu_per_step", "Server CPU per step"),
    (_draw_memory, "memory", "Server memory, sessions reset and stepped"),
    (_draw_workers, "workers_rate", "What workers carry: 64 sessions, 200 µs of CPU per step"),
)


def _times_better(result: Result, value: float | None) -> float:
    assert value
    assert result.public
    return value / result.public if result.row.more_is_better else result.public / value


def draw_thousands(rows: Sequence[tuple[int, int, float, float]], step_s: float, path: Path) -> None:
    """Draw how many sessions succeed, and how long connecting and a step take.

    Args:
        rows: For each number of sessions, in ascending order: the number, how many of them succeeded, the seconds until
            all were connected, and the seconds within which 99% of the steps came back.
        step_s: Seconds that a step of the environment takes.
        path: The picture's file.
    """
    numbers, succeeded, connect_s, p99_s = zip(*rows, strict=True)
    figure, (shares, times) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    shares.plot(numbers, [100 * good / all_ for good, all_ in zip(succeeded, numbers, strict=True)], marker="o")
    shares.set(title="Sessions without a failed call", ylabel="%", ylim=(0, 105))
    times.plot(numbers, p99_s, marker="o", label="a step, 99th percentile")
    times.plot(numbers, connect_s, marker="o", label="until all are connected")
    times.axhline(step_s, linestyle=":", color="grey", label="the environment's step")
    times.set(title="Seconds", yscale="log")
    times.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    times.legend()
    for axes in (shares, times):
        axes.set(xlabel="sessions", xscale="log")
        axes.xaxis.set_major_locator(LogLocator(base=2))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.tick_params(axis="x", rotation=45)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)
