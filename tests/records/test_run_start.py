"""When and how a run was started."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from openenv.records.run_start import RunStart


@pytest.mark.parametrize(
    ("argv", "orig_argv", "command"),
    [
        (["/venv/bin/openenv", "train", "my env"], ["/venv/bin/python"], "openenv train 'my env'"),
        (["examples/run.py", "-x"], ["/venv/bin/python3", "examples/run.py", "-x"], "python3 examples/run.py -x"),
        (["/lib/x/__main__.py", "train"], ["/bin/python3", "-m", "x", "train"], "python3 -m x train"),
        (["-c"], ["/bin/python3", "-c", "pass"], "python3 -c pass"),
    ],
)
def test_a_start_is_described(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], orig_argv: list[str], command: str
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    start = RunStart.now()
    assert start.command == command
    assert start.versions.keys() == {"openenv", "trl", "torch", "transformers", "python"}
    assert abs(datetime.fromisoformat(start.time) - datetime.now(UTC)) < timedelta(minutes=2)
    assert RunStart(**start.as_json()) == start
