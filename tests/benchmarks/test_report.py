"""The table, the JSON file and the picture say what was measured."""

import io
import json
from pathlib import Path

import pytest
from benchmarks.report import save_growth_plot, save_json, save_markdown, save_plot, table
from benchmarks.rows import Samples, results
from rich.console import Console

SAMPLES = Samples(
    {
        "cpu_non_blocking": {"floor": [17e-6], "public": [112e-6], "ours": [28e-6, 28e-6, 50e-6]},
        "threaded_clients": {"public": [2_275.0], "ours": [9_100.0]},
        "vector": {"gymnasium": [14_500.0], "ours": [80_000.0]},
        "memory_legacy": {"ours": [27 * 1024.0]},
        "installed_size": {"public": [490e6]},
    },
    curves={
        "cpu_per_step": {"ours": {1: [90e-6], 10_000: [7e-6, 8e-6, 30e-6]}},
        "memory": {"ours": {1: [37e6], 10_000: [72e6]}},
        "workers_rate": {"ours": {1: [4_500.0], 2: [8_600.0]}},
        "workers_client": {"ours": {1: [0.01], 2: [0.02]}},
        "workers_cpu_per_step": {"ours": {1: [8e-6], 2: [8e-6]}},
    },
)


def test_the_table_has_figures_ratios_and_verdicts() -> None:
    console = Console(width=148, record=True, file=io.StringIO())

    console.print(table(results(SAMPLES), SAMPLES))

    text = console.export_text()
    assert "CPU per step 17 µs (17 where the budgets were set: x1.00)." in text
    assert "round trip" not in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    rows = {row[0]: row[1:] for row in cells if row}
    assert rows["server CPU per step, 64 sockets, BLOCKING = False"] == [
        "µs", "17", "112", "-", "28", "30", "0.25", "1.65", "yes",
    ]  # fmt: skip
    assert rows["64 sync clients in 64 threads"] == ["steps/s", "-", "2,275", "-", "9,100", "15,000", "4.00", "-", "no"]
    assert rows["a vector of 64"] == ["steps/s", "-", "-", "14,500", "80,000", "72,500", "-", "-", "yes"]
    assert rows["memory per idle session, a socket each"] == ["KiB", "-", "-", "-", "27", "-", "-", "-", "-"]
    assert rows["installed size of the core"] == ["MB", "-", "490", "-", "-", "90", "-", "-", "-"]


def test_the_json_file_keeps_every_sample_and_says_where_it_was_taken(tmp_path: Path) -> None:
    save_json(results(SAMPLES), SAMPLES, 0.25, tmp_path / "benchmarks.json")

    document = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {row["key"] for row in document["rows"]} == SAMPLES.figures.keys()
    assert document["rows"][0]["samples"]["ours"] == [28e-6, 28e-6, 50e-6]
    assert document["rows"][0]["ours"] == 28e-6
    assert document["rows"][0]["met"] is True
    assert document["curves"]["cpu_per_step"]["ours"]["10000"] == [7e-6, 8e-6, 30e-6]
    assert document["load"] == 0.25
    assert document["machine"]["public"] == "0.10.0"
    assert document["machine"]["openenv-core"]


def test_the_markdown_table_has_a_line_for_each_row(tmp_path: Path) -> None:
    save_markdown(results(SAMPLES), tmp_path / "benchmarks.md")

    lines = (tmp_path / "benchmarks.md").read_text().splitlines()
    assert lines[2:] == [
        "| server CPU per step, 64 sockets, BLOCKING = False | µs | 17 | 112 | - | 28 | 30 | 0.25 | yes |",
        "| 64 sync clients in 64 threads | steps/s | - | 2,275 | - | 9,100 | 15,000 | 4.00 | no |",
        "| a vector of 64 | steps/s | - | - | 14,500 | 80,000 | 72,500 | - | yes |",
        "| memory per idle session, a socket each | KiB | - | - | - | 27 | - | - | - |",
        "| installed size of the core | MB | - | 490 | - | - | 90 | - | - |",
    ]
    assert len({line.count("|") for line in lines}) == 1


def test_the_picture_is_a_png_even_with_rows_left_out(tmp_path: Path) -> None:
    save_plot(results(SAMPLES), tmp_path / "benchmarks.png")

    assert (tmp_path / "benchmarks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.level("socket")
def test_the_picture_of_growth_has_a_panel_for_each_curve_that_was_measured(tmp_path: Path) -> None:
    only_workers = Samples({}, {curve: SAMPLES.curves[curve] for curve in SAMPLES.curves if "workers" in curve})

    save_growth_plot(SAMPLES, tmp_path / "three.png")
    save_growth_plot(only_workers, tmp_path / "one.png")

    three, one = (png_width(tmp_path / name) for name in ("three.png", "one.png"))
    assert three > 2 * one


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    save_plot(results(Samples({"cpu_v1_64": {"ours": [8e-6]}})), tmp_path / "benchmarks.png")
    save_growth_plot(Samples(), tmp_path / "growth.png")

    assert list(tmp_path.iterdir()) == []


def png_width(path: Path) -> int:
    """Read the width out of a PNG file's first chunk."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20])
