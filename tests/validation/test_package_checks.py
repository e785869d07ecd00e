"""Checks of requirements and data files."""

from pathlib import Path

import pytest
from tests.support.broken_environments import PROJECT
from tests.support.environment_folders import fresh_scaffold, public_environment, write_files
from tests.support.outcomes import Outcome, outcomes

from openenv.validation import read_source
from openenv.validation.findings import run_check
from openenv.validation.package_checks import PACKAGE_CHECKS

ENVIRONMENT = "server/my_env_environment.py"


def result(folder: Path, check_id: str) -> Outcome:
    check = next(check for check in PACKAGE_CHECKS if check.id == f"static.{check_id}")
    return outcomes(run_check(check, read_source(folder)))[check.id]


def with_lines(folder: Path, lines: str, path: str = ENVIRONMENT) -> Path:
    (folder / path).write_text(f"{(folder / path).read_text()}\n{lines}\n")
    return folder


SOUND_IMPORTS = [
    "import json, os.path",
    "import pydantic",  # comes with openenv-core
    "from fastapi import FastAPI",
    "from ..models import MyAction",
    "from models import MyAction",
    "import my_env.models",
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
    "try:\n    import numpy\nexcept (ModuleNotFoundError, OSError):\n    numpy = None",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy",
    "try:\n    numpy = __import__('numpy')\nexcept ImportError:\n    numpy = None",
    "import contextlib\nwith contextlib.suppress(ImportError):\n    import numpy",
    "from contextlib import suppress\nwith open('a') as a, suppress(OSError, ModuleNotFoundError):\n    import numpy",
    "from importlib.util import find_spec\nif find_spec('numpy') is not None:\n    import numpy",
    "from importlib import import_module\nown = import_module('.models', 'my_env')",
]


@pytest.mark.parametrize("lines", SOUND_IMPORTS)
def test_what_comes_along_or_may_be_missing_is_not_required(tmp_path: Path, lines: str) -> None:
    assert result(with_lines(fresh_scaffold(tmp_path, "my_env"), lines), "requirements").evidence == []


def test_what_is_required_by_both_lists_is_found(tmp_path: Path) -> None:
    folder = with_lines(fresh_scaffold(tmp_path, "my_env"), "import numpy")
    with_lines(folder, "numpy>=2  # arrays", "server/requirements.txt")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('>=0.11.0"', '>=0.11.0", "NumPy"'))
    assert result(folder, "requirements").evidence == []


def test_what_is_not_installed_may_go_by_any_name(tmp_path: Path) -> None:
    folder = with_lines(fresh_scaffold(tmp_path, "my_env"), "import absent_module")
    assert [text.partition(" imports ")[2] for text in result(folder, "requirements").evidence] == [
        "absent_module, which pyproject.toml does not require.",
        "absent_module, which server/requirements.txt does not require.",
    ]
    with_lines(folder, "absent-distribution", "server/requirements.txt")
    assert [text.partition(", which ")[2] for text in result(folder, "requirements").evidence] == [
        "pyproject.toml does not require."
    ]


def test_what_the_public_package_brings_is_a_warning(tmp_path: Path) -> None:
    folder = with_lines(fresh_scaffold(tmp_path, "my_env"), "import requests")
    assert result(folder, "requirements").status == "warn"


def test_a_list_that_names_others_is_not_judged(tmp_path: Path) -> None:
    folder = with_lines(fresh_scaffold(tmp_path, "my_env"), "import numpy")
    with_lines(folder, "-r more.txt", "server/requirements.txt")
    assert [text for text in result(folder, "requirements").evidence if "requirements.txt" in text] == []


def test_a_folder_without_a_list_is_not_judged(tmp_path: Path) -> None:
    assert result(public_environment(tmp_path), "requirements").evidence == []


def test_tests_may_import_what_they_like(tmp_path: Path) -> None:
    folder = with_lines(fresh_scaffold(tmp_path, "my_env"), "import numpy", "tests/test_my_env.py")
    assert result(folder, "requirements").evidence == []


@pytest.mark.parametrize(
    "lines",
    [
        "open('/proc/meminfo')",
        "open('log.txt', 'w')",
        "open('log.txt', mode='a')",
        "open(name)",
        "from pathlib import Path\nPath(__file__).read_text()",
        "Path('a', 'b').read_text()",
    ],
)
def test_what_is_written_or_lies_beside_the_code_is_no_fault(tmp_path: Path, lines: str) -> None:
    assert result(with_lines(fresh_scaffold(tmp_path, "my_env"), lines), "data").evidence == []


def test_a_file_of_the_folder_is_found_only_from_there(tmp_path: Path) -> None:
    folder = write_files(fresh_scaffold(tmp_path, "my_env"), {"words.json": "[]"})
    found = result(with_lines(folder, "open('words.json', 'rb')"), "data")
    assert "opens words.json, which is found only where the server starts in this folder." in found.evidence[0]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [("words.json", "*.json"), ("data/words.json", "data/*"), ("server/data/deep/words.json", "**/*.json")],
)
def test_package_data_is_found_by_its_patterns(tmp_path: Path, path: str, pattern: str) -> None:
    folder = write_files(fresh_scaffold(tmp_path, "my_env"), {path: "[]", "pyproject.toml": PROJECT})
    with_lines(folder, "NAME = 'words.json'")
    assert result(folder, "data").status == "fail"
    write_files(folder, {"pyproject.toml": PROJECT.replace("my_env = [", f'"*" = ["{pattern}", ')})
    assert result(folder, "data").evidence == []


@pytest.mark.parametrize(
    ("path", "is_in_wheel"),
    [
        (".words.json", False),
        ("server/data/.words.json", False),
        ("data/a folder/my words.json", True),
    ],
)
def test_package_data_that_is_excluded_is_not_in_the_wheel(tmp_path: Path, path: str, is_in_wheel: bool) -> None:
    folder = write_files(fresh_scaffold(tmp_path, "my_env"), {path: "[]"})
    with_lines(folder, f"NAME = {Path(path).name!r}")
    assert (result(folder, "data").status == "pass") is is_in_wheel


@pytest.mark.parametrize(
    ("tables", "status"),
    [
        ("", "fail"),
        ('[tool.setuptools.package-data]\nwords = ["*.txt"]', "fail"),
        ('[tool.setuptools.package-data]\nwords = ["**/*.json"]', "pass"),
        ('[tool.setuptools.package-data]\n"*" = ["data/*"]', "pass"),
        ('[tool.setuptools.package-data]\n"words.deep" = ["*.json"]', "fail"),
    ],
)
def test_data_of_packages_that_setuptools_finds_in_src(tmp_path: Path, tables: str, status: str) -> None:
    before = PROJECT.partition("[tool.setuptools]")[0]
    files = {
        "pyproject.toml": f'{before}[tool.setuptools.packages.find]\nwhere = ["src"]\n{tables}\n',
        "src/words/__init__.py": "",
        "src/words/deep/__init__.py": "NAME = 'words.json'\n",
        "src/words/data/words.json": "[]",
    }
    assert result(write_files(fresh_scaffold(tmp_path, "my_env"), files), "data").status == status


def test_what_no_code_names_is_no_data(tmp_path: Path) -> None:
    folder = write_files(fresh_scaffold(tmp_path, "my_env"), {"notes.pdf": "x", "tests/words.json": "[]"})
    assert result(folder, "data").evidence == []


def test_where_another_tool_builds_the_wheel_it_decides(tmp_path: Path) -> None:
    other = PROJECT.replace("setuptools.build_meta", "hatchling.build")
    folder = write_files(fresh_scaffold(tmp_path, "my_env"), {"words.json": "[]", "pyproject.toml": other})
    with_lines(folder, "NAME = 'words.json'")
    assert result(folder, "data").evidence == []
