"""Grids of evaluations: what their folders hold, and their reports."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.records.evaluation import Estimate, Evaluation, TaskResult
from openenv.records.evaluation_grid import GridCell, read_grid, write_grid
from openenv.records.prices import Spending

TASKS = [TaskResult({"seed": 1}, [1.0], 1), TaskResult({"seed": 2}, [0.0], 0, failed=1)]
PLAYED = Evaluation(
    environment="catch",
    player="a|b",
    samples=1,
    success_reward=1.0,
    mean_reward=Estimate(0.5, 0.0, 1.0),
    pass_at={1: Estimate(0.5, 0.1, 0.9)},
    mean_length=4.5,
    illegal_actions=0.0,
    tasks=TASKS,
    warnings={"few": "Few <tasks>."},
    limits={"max_turns": 1},
    spending=Spending(2, 10, 20, None, 0.25),
)


def cells(folder: Path) -> list[GridCell]:
    PLAYED.save(folder / "one" / "results.json")
    return [
        GridCell("catch", "a|b", "one", evaluation=PLAYED),
        GridCell("wordle", "a|b", "two", problem="No server."),
        GridCell("chess", "a|b", "three"),
    ]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    written = cells(tmp_path)
    write_grid(tmp_path, written)
    assert read_grid(tmp_path) == written
    with pytest.raises(ConfigurationError, match=r"grid\.json"):
        read_grid(tmp_path / "one")


def test_the_report_has_each_cell(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    write_grid(tmp_path, cells(tmp_path))
    lines = (tmp_path / "report.md").read_text().splitlines()
    assert lines[0] == "# Evaluation of 1 player in 3 environments"
    row = "| catch | a\\|b | 2 | +0.500 [+0.000, +1.000] | 0.500 [0.100, 0.900] | 4.5 | 0.2500 |"
    assert f"{row} 1 failed, 1 ended by max_turns |" in lines
    assert "| wordle | a\\|b |  |  |  |  |  | failed: No server. |" in lines
    assert "| chess | a\\|b |  |  |  |  |  | not played yet |" in lines
    assert "- Few <tasks>." in lines
    page = (tmp_path / "report.html").read_text()
    assert "<td>+0.500 [+0.000, +1.000]<td>0.500 [0.100, 0.900]" in page
    assert "<li>Few &lt;tasks&gt;.</li>" in page
