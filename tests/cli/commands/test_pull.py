"""``openenv pull``: where a repository comes to lie, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.services.hub_server import HubServer

FILES = {"openenv.yaml": b"name: go"}


def test_it_goes_to_a_folder_of_its_name(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    hub.add("bob/go-env", FILES)
    ended = openenv_here("pull", "bob/go-env")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "go_env" / "openenv.yaml").read_bytes() == FILES["openenv.yaml"]
    assert "look at it before you run it" in ended.stdout
    again = openenv_here("pull", "bob/go-env")
    assert again.returncode == 1
    assert "overwrite with --force" in again.stderr
    assert openenv_here("pull", f"{hub.url}/spaces/bob/go-env", "--force").returncode == 0


def test_revisions_and_other_repositories(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    words = hub.add("bob/words", {"words.txt": b"new"}, "dataset")
    words.commits["a" * 40] = {"words.txt": b"old"}
    options = ("--revision", "a" * 40, "--repo-type", "dataset")
    assert openenv_here("pull", "bob/words", "old", *options).returncode == 0
    ended = openenv_here("pull", f"{hub.url}/datasets/bob/words", "new")
    assert "look at it" not in ended.stdout
    assert [(tmp_path / name / "words.txt").read_text() for name in ("old", "new")] == ["old", "new"]


@pytest.mark.parametrize("source", ["go", "https://example.com/a/b", "a/b/c"])
def test_what_is_no_repository(openenv_here: Any, source: str) -> None:
    assert openenv_here("pull", source).returncode == 2


def test_what_is_another_kind(openenv_here: Any) -> None:
    ended = openenv_here("pull", "https://huggingface.co/datasets/a/b", "--repo-type", "space")
    assert ended.returncode == 2
    assert "is a dataset" in ended.stderr


def test_what_is_not_there(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    ended = openenv_here("pull", "bob/none")
    assert (ended.returncode, (tmp_path / "none").exists()) == (1, False)
    assert "Error: Could not find bob/none: there is none of that name" in ended.stderr
