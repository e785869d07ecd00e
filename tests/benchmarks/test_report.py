"""The table, the JSON file and the picture say what was measured."""

import io
import json
from pathlib import Path

from benchmarks.report import save_json, save_markdown, save_plot, table
from benchmarks.rows import Samples, results
from rich.console import Console

SAMPLES = Samples(
    {
        "cpu_non_blocking": {"floor": [17e-6], "public": [112e-6], "ours": [28e-6, 28e-6, 50e-6]},
        "threaded_clients": {"public": [2_275.0], "ours": [9_100.0]},
        "installed_size": {"public": [490e6]},
    }
)


def test_the_table_has_figures_ratios_and_verdicts() -> None:
    console = Console(width=132, record=True, file=io.StringIO())

    console.print(table(results(SAMPLES)))

    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.export_text().splitlines()]
    rows = {row[0]: row[1:] for row in cells if row}
    assert rows["server CPU per step, 64 sockets, BLOCKING = False"] == [
        "µs", "17", "112", "28", "30", "0.25", "1.65", "yes",
    ]  # fmt: skip
    assert rows["64 sync clients in 64 threads"] == ["steps/s", "-", "2,275", "9,100", "15,000", "4.00", "-", "no"]
    assert rows["installed size of the core"] == ["MB", "-", "490", "-", "90", "-", "-", "-"]


def test_the_json_file_keeps_every_sample_and_says_where_it_was_taken(tmp_path: Path) -> None:
    save_json(results(SAMPLES), SAMPLES, tmp_path / "benchmarks.json")

    document = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [row["key"] for row in document["rows"]] == ["cpu_non_blocking", "threaded_clients", "installed_size"]
    assert document["rows"][0]["samples"]["ours"] == [28e-6, 28e-6, 50e-6]
    assert document["rows"][0]["ours"] == 28e-6
    assert document["rows"][0]["met"] is True
    assert document["machine"]["public"] == "0.10.0"
    assert document["machine"]["openenv-core"]


def test_the_markdown_table_has_a_line_for_each_row(tmp_path: Path) -> None:
    save_markdown(results(SAMPLES), tmp_path / "benchmarks.md")

    lines = (tmp_path / "benchmarks.md").read_text().splitlines()
    assert lines[2:] == [
        "| server CPU per step, 64 sockets, BLOCKING = False | µs | 17 | 112 | 28 | 30 | 0.25 | yes |",
        "| 64 sync clients in 64 threads | steps/s | - | 2,275 | 9,100 | 15,000 | 4.00 | no |",
        "| installed size of the core | MB | - | 490 | - | 90 | - | - |",
    ]
    assert len({line.count("|") for line in lines}) == 1


def test_the_picture_is_a_png_even_with_rows_left_out(tmp_path: Path) -> None:
    save_plot(results(SAMPLES), tmp_path / "benchmarks.png")

    assert (tmp_path / "benchmarks.png").read_bytes().startswith(b"\x89PNG")
