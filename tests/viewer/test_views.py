"""Observations on record are shown by installed environments alone."""

import shutil
from pathlib import Path

import pytest

from openenv.auto.discovery import find_environment
from openenv.viewer.views import installed_renderer


@pytest.mark.parametrize(
    "name",
    ["wordle", "wordle_env", "catch", "2048", "sudoku", "blackjack", "openspiel", "openspiel:chess", "textarena"],
)
def test_an_installed_environment_shows_its_observations(name: str) -> None:
    assert installed_renderer(name) is not None


@pytest.mark.parametrize(
    "name", ["echo", "no_such_environment", "", ":", "http://127.0.0.1:1", "gymnasium:CartPole-v1"]
)
def test_others_show_nothing(name: str) -> None:
    assert installed_renderer(name) is None


def test_a_record_can_not_name_a_folder_whose_code_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(find_environment("catch").folder, tmp_path / "strange_env")
    (folder / "server" / "catch_environment.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "strange_env", "./strange_env", f"{folder}/server/catch_environment.py"):
        assert installed_renderer(name) is None
