"""``openenv validate``: what is shown, what is written, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.environment_folders import scaffold, write_files


def test_a_scaffold_passes(openenv: Any, tmp_path: Path) -> None:
    ended = openenv("validate", scaffold(tmp_path, "my_env"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.rstrip().endswith("my_env: passed")


def test_the_working_directory_is_the_default(openenv: Any, tmp_path: Path) -> None:
    write_files(tmp_path, {"openenv.yaml": "name: my_env"})
    ended = openenv("validate")
    assert ended.returncode == 1
    assert str(tmp_path) in ended.stdout


def test_a_warning_still_passes(openenv: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"README.md": "# My env [not markup]"})
    ended = openenv("validate", folder)
    assert ended.returncode == 0
    assert "README.md has no front matter" in ended.stdout
    assert "→" in ended.stdout
    assert ended.stdout.rstrip().endswith("passed with warnings")


def test_a_fault_fails(openenv: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"client.py": "def (", "a[b].py": "def ("})
    ended = openenv("validate", folder)
    assert ended.returncode == 1
    assert "client.py:1:" in ended.stdout
    assert "a[b].py:1:" in ended.stdout
    assert ended.stdout.rstrip().endswith("failed")


def test_many_findings_are_cut_short_but_not_in_json(openenv: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {f"m{number}.py": "def (" for number in range(15)})
    assert "and 5 more; --json lists all" in openenv("validate", folder).stdout
    results = json.loads(openenv("validate", folder, "--json").stdout)["results"]
    assert len(next(each for each in results if each["check_id"] == "syntax")["evidence"]) == 15


def test_the_report_goes_to_a_file_too(openenv: Any, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    ended = openenv("validate", folder, "--output", tmp_path / "report.json")
    assert "my_env: passed" in ended.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "pass"
    shown = json.loads(openenv("validate", folder, "--json").stdout)
    assert {key: shown[key] for key in ("target", "source_digest", "manifest")} == {
        key: report[key] for key in ("target", "source_digest", "manifest")
    }


def test_installed_environments_go_by_their_names(openenv: Any) -> None:
    assert openenv("validate", "wordle").returncode == 0


@pytest.mark.parametrize("target", [".", "no-such-environment", "./nothing", "http://127.0.0.1:9"])
def test_no_environment_ends_with_2(openenv: Any, target: str) -> None:
    ended = openenv("validate", target)
    assert ended.returncode == 2
    assert "openenv.yaml" in ended.stderr or "There is no folder" in ended.stderr


def test_a_report_that_cannot_be_written_is_told(openenv: Any, tmp_path: Path) -> None:
    ended = openenv("validate", scaffold(tmp_path, "my_env"), "--output", tmp_path / "no" / "report.json")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: [Errno 2]")


def test_another_worlds_environment_is_made_and_reset(openenv: Any) -> None:
    ended = openenv("validate", "gymnasium:Blackjack-v1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.rstrip().endswith("gymnasium:Blackjack-v1: passed")


def test_another_worlds_unknown_environment_ends_with_2(openenv: Any) -> None:
    ended = openenv("validate", "gymnasium:Blackjock-v1")
    assert ended.returncode == 2
    assert "Did you mean Blackjack-v1" in ended.stderr
