"""What of a folder is published."""

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.environment_folders import write_files

from openenv.core.exceptions import ConfigurationError
from openenv.hub.ignoring import is_ignored, kept_files, read_patterns

PART = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


def kept(folder: Path, *exclude: str) -> list[str]:
    return [str(path) for path in kept_files(folder, exclude)]


def test_hidden_built_and_written_files_stay_at_home(tmp_path: Path) -> None:
    left_out = (".env", ".git/config", "a/.hidden", "a/__pycache__/x.py", "a/b.pyc", "my.egg-info/PKG-INFO")
    at_the_top = ("build/x", "dist/x.whl", "outputs/logs/1", "runs/1", "venv/bin/python", "node_modules/x")
    there = ("a/b.py", "a/build/x", "data/outputs/x", "z.txt")
    write_files(tmp_path, dict.fromkeys((*left_out, *at_the_top, *there), "x"))
    assert kept(tmp_path) == sorted(there)


def test_further_globs(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys(("a.log", "x/a.log", "data/big/1", "data/2", "keep/data/3"), "x"))
    assert kept(tmp_path, "*.log", "data/big/") == ["data/2", "keep/data/3"]
    assert kept(tmp_path, "data") == ["a.log", "x/a.log"]
    assert kept(tmp_path, "/data/*", "*.log") == ["keep/data/3"]
    assert kept(tmp_path, "/?", "/.*") == ["a.log", "data/2", "data/big/1", "keep/data/3"]


@given(above=st.lists(PART, max_size=3), name=PART, below=st.lists(PART, max_size=3))
def test_a_name_is_left_out_wherever_it_is(above: list[str], name: str, below: list[str]) -> None:
    path = PurePosixPath(*above, name, *below)
    assert is_ignored(path, [name])
    assert is_ignored(path, [f"{name}/"])
    assert is_ignored(path, ["/".join([*above, name])] if above else [f"/{name}"])
    assert not is_ignored(path, [f"{name}_"])


def test_a_link_out_of_the_folder_publishes_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {"secret": "x", "env/a.py": "x"})
    (tmp_path / "env" / "innocent.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match=r"innocent\.txt is a link that leads out of the folder"):
        kept(tmp_path / "env")
    assert kept(tmp_path / "env", "innocent.txt") == ["a.py"]


def test_links_within_are_files_and_folders_are_not_linked(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/b.py": "x"})
    (tmp_path / "c.py").symlink_to("a/b.py")
    assert kept(tmp_path) == ["a/b.py", "c.py"]
    (tmp_path / "d").symlink_to("a")
    with pytest.raises(ConfigurationError, match="link to a folder"):
        kept(tmp_path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="pipe is no file"):
        kept(tmp_path)


def test_globs_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "patterns"
    file.write_text("# what is large\n\n *.bin \ndata/\n")
    assert read_patterns(file) == ["*.bin", "data/"]
    file.write_text("*.bin\n!keep.bin\n")
    with pytest.raises(ConfigurationError, match=r"'!keep\.bin'"):
        read_patterns(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        read_patterns(file)
