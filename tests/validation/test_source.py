"""Reading a folder for its checks."""

from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.auto import Manifest
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.validation import read_source
from openenv.validation.source import source_digest


def test_it_reads_text_files_and_leaves_out_products_and_caches(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    left_out = (".git/x", ".venv/x.py", "__pycache__/x", "build/x.py", "outputs/x", "my_env.egg-info/x", "a/dist/x")
    write_files(folder, dict.fromkeys(left_out, "text"))
    (folder / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    (folder / "big.txt").write_text("x" * 1_000_001)
    (folder / "dangling").symlink_to("nowhere")
    source = read_source(folder)
    assert set(source.texts) == {
        ".dockerignore",
        ".gitignore",
        "README.md",
        "__init__.py",
        "client.py",
        "models.py",
        "openenv.yaml",
        "player.py",
        "pyproject.toml",
        "server/Dockerfile",
        "server/__init__.py",
        "server/app.py",
        "server/my_env_environment.py",
        "server/requirements.txt",
        "tests/test_my_env.py",
        "validation/runtime.json",
    }
    assert isinstance(source.manifest, Manifest)
    assert (source.module, source.top_folder) == ("my_env", folder)


def test_nothing_is_imported(tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"__init__.py": "raise SystemExit('imported')"})
    assert "__init__.py" in read_source(folder).trees


def test_what_is_broken_is_kept_as_its_error(tmp_path: Path) -> None:
    files = {
        "openenv.yaml": "port: x",
        "pyproject.toml": "[",
        "a.py": "def (",
        "b.py": "x = '\0'",
        "c.py": f"{'-' * 100_000}1",
    }
    source = read_source(write_files(tmp_path / "my_env", files))
    assert isinstance(source.manifest, ConfigurationError)
    assert isinstance(source.module, ConfigurationError)
    assert isinstance(source.trees["a.py"], SyntaxError)
    assert isinstance(source.trees["b.py"], SyntaxError)
    assert "nested too deeply" in str(source.trees["c.py"])


def test_the_digest_changes_with_every_file_and_with_nothing_else(tmp_path: Path) -> None:
    one, two = scaffold(tmp_path / "one", "my_env"), scaffold(tmp_path / "two", "my_env")
    digest = source_digest(one)
    assert len(digest) == 64
    assert source_digest(two) == digest
    write_files(two, {"__pycache__/x.pyc": "cached"})
    assert source_digest(two) == digest
    (two / "README.md").rename(two / "README2.md")
    renamed = source_digest(two)
    write_files(two, {"README2.md": "other"})
    assert len({digest, renamed, source_digest(two)}) == 3


def test_a_folder_without_a_manifest_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"holds no openenv\.yaml"):
        read_source(tmp_path)
    with pytest.raises(EnvironmentNotFoundError, match=r"There is no folder .*nothing"):
        read_source(tmp_path / "nothing")
