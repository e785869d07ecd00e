"""Grids of evaluations: played cell by cell, continued after a stop, with failures of their own."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.servers import RunningServer

from openenv.core.exceptions import ConfigurationError
from openenv.records.evaluation_grid import GridCell, read_grid
from openenv.train.evaluation.grid import evaluate_grid
from openenv.train.settings.play_settings import PlaySettings


def run(settings: list[PlaySettings], output: Path, **others: Any) -> list[GridCell]:
    return evaluate_grid(settings, output, console=Console(file=StringIO()), num_tasks=3, sessions=3, **others)


def player(server: RunningServer, name: str, **settings: Any) -> PlaySettings:
    return PlaySettings(environment=server.url, player=name, max_turns=3, **settings)


def test_a_cell_that_fails_leaves_the_others(stairs_server: RunningServer, tmp_path: Path) -> None:
    grid = [player(stairs_server, "scripted"), player(stairs_server, "random")]
    scripted, random = run(grid, tmp_path)
    assert scripted.evaluation is None
    assert "has no scripted player" in str(scripted.problem)
    assert random.evaluation is not None
    assert random.evaluation.episodes == 3
    assert read_grid(tmp_path) == [scripted, random]
    line = (tmp_path / random.folder / "episodes.jsonl").read_bytes()
    run(grid, tmp_path)
    assert (tmp_path / random.folder / "episodes.jsonl").read_bytes() == line, "what was played is not played again"


def test_the_report_is_there_before_the_last_cell(stairs_server: RunningServer, tmp_path: Path) -> None:
    class StoppingConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            if objects and str(objects[0]).startswith("2/2  scripted"):
                raise KeyboardInterrupt

    grid = [player(stairs_server, "random"), player(stairs_server, "scripted")]
    with pytest.raises(KeyboardInterrupt):
        evaluate_grid(grid, tmp_path, console=StoppingConsole(file=StringIO()), num_tasks=2, sessions=2)
    first, second = read_grid(tmp_path)
    assert first.evaluation is not None
    assert second.row["note"] == "not played yet"


def test_the_same_cell_twice_is_refused(stairs_server: RunningServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="would be evaluated twice"):
        run([player(stairs_server, "random")] * 2, tmp_path / "e")
    assert not (tmp_path / "e").exists()
