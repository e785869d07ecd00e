"""The table of what environments cost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.catalog import BEGIN, END, PAGES, Cost, markdown, write_into
from benchmarks.public_package import ROOT


def test_an_environment_is_measured_through_the_wire(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.catalog", "--only", "catch", "--seconds", "0.05"]
    finished = subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
    (cost,) = json.loads((tmp_path / "catalog.json").read_text())["costs"]
    assert (cost["name"], cost["sessions"]) == ("catch", 64)
    assert cost["steps_per_s"] > 0
    assert 0 < cost["step_s"] < 60
    assert 0 < cost["reset_s"] < 60
    assert 0 < cost["bytes_per_session"] < 2**20
    assert "memory per session" in finished.stdout


def test_an_unknown_environment_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks.catalog", "--only", "ctach"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "Did you mean catch" in " ".join(finished.stderr.replace("│", "").split())


def test_a_part_of_the_table_is_not_written_over_the_whole() -> None:
    pages = [page.read_text() for page in PAGES]
    command = [sys.executable, "-m", "benchmarks.catalog", "--only", "catch", "--seconds", "0.05", "--write"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "leave --only out" in finished.stderr
    assert [page.read_text() for page in PAGES] == pages


def test_the_table_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nan older table\n{END}\nafter\n")
    table = markdown([Cost("echo", 64, 12345.6, 80e-6, 0.002, 9 * 1024)], {"echo": "Says it back."})
    write_into(page, table)
    write_into(page, table)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| Environment |")
    assert "| `echo` | Says it back. | 64 | 12,346 | 80 µs | 2.0 ms | 9 KiB |" in text
    assert text.endswith(f"\n{END}\nafter\n")
    page.write_text("no place")
    with pytest.raises(ValueError, match="has no place for the table"):
        write_into(page, table)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_page_has_a_place_for_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
