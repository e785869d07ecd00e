"""What the measurements are shown as: a table in the terminal, JSON, and a picture."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.table import Table

from benchmarks.public_package import VERSION as PUBLIC_VERSION
from benchmarks.rows import Result, Samples

mpl.use("Agg")

from matplotlib import pyplot as plt  # after the choice of the backend
from matplotlib.ticker import StrMethodFormatter


def table(results: Sequence[Result]) -> Table:
    """Lay the results out for a terminal."""
    title = f"OpenEnv beside the public openenv {PUBLIC_VERSION} and a bare uvicorn echo server (the floor)"
    shown = Table(title=title, title_justify="left")
    shown.add_column("what", no_wrap=True)
    shown.add_column("unit", no_wrap=True)
    for column in ("floor", "public", "ours", "budget", "ours/public", "ours/floor"):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("met", justify="center", no_wrap=True)
    for result in results:
        shown.add_row(
            result.row.title,
            result.row.unit,
            *(_figure(result, value) for value in (result.floor, result.public, result.ours, result.budget)),
            _ratio(result.ratio_to(result.public)),
            _ratio(result.ratio_to(result.floor)),
            {True: "[green]yes", False: "[red]no", None: "-"}[result.met],
        )
    return shown


def _figure(result: Result, value: float | None) -> str:
    if value is None:
        return "-"
    amount = value / result.row.per_unit
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def save_json(results: Sequence[Result], samples: Samples, path: Path) -> None:
    """Write the results with every sample and what they were taken on."""
    document = {
        "machine": _machine(),
        "rows": [{**asdict(result), "met": result.met, "samples": samples.figures[result.key]} for result in results],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    # The only thing in a result that JSON does not know is the floor's enum.
    return value.name


def _machine() -> dict[str, str]:
    packages = ("openenv-core", "uvicorn", "websockets", "uvloop", "pydantic", "fastapi")
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "public": PUBLIC_VERSION,
        **{package: version(package) for package in packages},
    }


def save_markdown(results: Sequence[Result], path: Path) -> None:
    """Write the table as Markdown, for ``benchmarks/README.md``."""
    lines = [
        "| what | unit | floor | public | ours | budget | ours/public | met |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for result in results:
        figures = [_figure(result, value) for value in (result.floor, result.public, result.ours, result.budget)]
        met = {True: "yes", False: "no", None: "-"}[result.met]
        cells = [result.row.title, result.row.unit, *figures, _ratio(result.ratio_to(result.public)), met]
        lines.append(f"| {' | '.join(cells)} |")
    path.write_text("\n".join(lines) + "\n")


def save_plot(results: Sequence[Result], path: Path) -> None:
    """Draw how many times better than the public package ours is, and where the budgets lie."""
    compared = [result for result in results if result.public and result.ours]
    positions = range(len(compared))
    ours = [_times_better(result, result.ours) for result in compared]
    budgets = [_times_better(result, result.budget) for result in compared]
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


def _times_better(result: Result, value: float | None) -> float:
    assert value
    assert result.public
    return value / result.public if result.row.more_is_better else result.public / value
