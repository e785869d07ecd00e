"""``openenv collect`` as a person uses it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import eventually

OPENENV = [sys.executable, "-m", "openenv.cli"]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_a_killed_collecting_goes_on(tmp_path: Path) -> None:
    """The whole way, in real processes: ``kill -9`` while episodes are written, and the same command again."""
    folder = tmp_path / "data"
    command = [*OPENENV, "collect", "catch", "--output", str(folder), "--sessions", "2", "--episodes"]
    file = folder / "episodes.jsonl"
    with subprocess.Popen([*command, "100000"], stdout=subprocess.DEVNULL) as process:
        eventually(lambda: file.is_file() and file.stat().st_size > 50_000, "some episodes")
        process.kill()
    written = file.read_bytes()
    count = written.count(b"\n") + 5
    shown = subprocess.run([*command, str(count)], capture_output=True, text=True, timeout=100, check=True)
    assert shown.stderr == ""
    assert f"{count} episodes, mean reward +1.000: {file}" in shown.stdout
    assert [line["index"] for line in lines_of(folder)] == list(range(count))
    assert file.read_bytes().startswith(written[: written.rfind(b"\n") + 1])


def test_a_mistake_is_one_line(openenv_here: Any, tmp_path: Path) -> None:
    for arguments, message in (
        (["catch", "--model", "m"], "A model plays behind an address: give it with --base-url"),
        (["catch", "--model", "m", "--player", "random", "--base-url", "x:1"], "Expected either a player or a model"),
        (["catch", "--reset", "seed=1"], "--reset 'seed=1': the seed is given with --seed."),
        (["no_such_environment"], "No environment is called 'no_such_environment'"),
    ):
        ended = openenv_here("collect", *arguments, "--output", tmp_path / "data")
        assert ended.returncode == 1
        assert message in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("option", ["--episodes", "--sessions", "--max-turns"])
def test_nothing_less_than_one(openenv_here: Any, option: str) -> None:
    ended = openenv_here("collect", "catch", "--output", "data", option, "0")
    assert ended.returncode == 2
    assert option in ended.stderr
