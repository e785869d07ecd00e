"""What folders say that they need, in each of the forms that they say it in."""

import os
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.environment_folders import write_files

from openenv.core.providers.venv.requirements import read_requirements
from openenv.core.exceptions import ConfigurationError

LOCK = "version = 1\n"


def project(folder: Path, *dependencies: str, more: str = "") -> Path:
    text = f"[project]\nname = 'my-env'\nversion = '0.1'\ndependencies = {list(dependencies)}\n{dedent(more)}"
    return write_files(folder, {"pyproject.toml": text})


def test_a_project_lists_what_it_needs_beside_openenv(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        "openenv-core[train,ors]>=0.2",
        "OpenEnv[core] @ git+https://example.invalid/x",
        "openenv_core",
        "openenv-echo-env",
        "numpy>=2; python_version > '3'",
        more="requires-python = '>=3.11'",
    )
    found = read_requirements(folder)
    assert found.lines == ("openenv-echo-env", "numpy>=2; python_version > '3'")
    assert found.extras == {"train", "ors", "core"}
    assert (found.file, found.python, found.is_locked) == (folder / "pyproject.toml", ">=3.11", False)


def test_the_command_names_folders_that_uv_s_settings_have(tmp_path: Path) -> None:
    sources = """
        [tool.uv.sources]
        My_Sums = { path = "../my sums", editable = true }
        data = { path = "data" }
        other = { git = "https://example.invalid/x" }
        odd = 1
        """
    folder = project(tmp_path / "env", "my-sums[all]>=1", "data", "other", "odd", more=sources)
    command = read_requirements(folder).install_command()
    assert command == f"pip install -e '{tmp_path}/my sums[all]' {folder}/data other odd"


def test_a_list_is_read_where_there_is_no_project(tmp_path: Path) -> None:
    listed = """
        # what it needs
        numpy>=2  # for arrays
        openenv-core[train]>=0.2
        torch \\
            >=2
        --extra-index-url https://example.invalid/#egg
        -r more/lists.txt
        --constraint=pins.txt
        -e ../library
        git+https://example.invalid/x@main
        """
    more = "scipy\nopenenv[ors]\n-r ../requirements.txt\n-c pins.txt\n"  # the one that names it is not read again
    files = {"requirements.txt": listed, "pins.txt": "", "more/lists.txt": more, "more/pins.txt": ""}
    folder = write_files(tmp_path, {**files, "pyproject.toml": "[tool.ruff]\n"})
    found = read_requirements(folder)
    assert found.lines == (
        "numpy>=2",
        "torch >=2",
        "--extra-index-url https://example.invalid/#egg",
        "scipy",
        f"-c {folder}/more/pins.txt",
        f"--constraint {folder}/pins.txt",
        f"-e {folder}/../library",
        "git+https://example.invalid/x@main",
    )
    assert found.extras == {"train", "ors", "core"}  # the latter as it names openenv, the public package


def test_who_requires_the_public_package_gets_what_came_with_it(tmp_path: Path) -> None:
    assert read_requirements(project(tmp_path / "theirs", "openenv>=0.2")).extras == {"core"}
    assert read_requirements(project(tmp_path / "ours", "openenv-core")).extras == set()


def test_the_command_that_installs_them_leaves_openenv_out(tmp_path: Path) -> None:
    folder = project(tmp_path, "openenv[core]", "numpy>=2", "scipy; python_version > '3'")
    assert read_requirements(folder).install_command() == (
        """pip install 'numpy>=2' 'scipy; python_version > '"'"'3'"'"''"""
    )


def test_the_server_s_list_will_do(tmp_path: Path) -> None:
    files = {"server/requirements.txt": "numpy\n-r ../more.txt\n", "more.txt": "scipy\n"}
    assert read_requirements(write_files(tmp_path, files)).lines == ("numpy", "scipy")


@pytest.mark.parametrize("file", ["requirements.txt", "more.txt", "pins.txt"])
def test_what_a_list_names_matters_as_the_list_does(tmp_path: Path, file: str) -> None:
    files = {"requirements.txt": "-r more.txt\n-c pins.txt\n", "more.txt": "scipy\n", "pins.txt": "numpy<3\n"}
    here, there = (read_requirements(write_files(tmp_path / name, files)) for name in ("here", "there"))
    assert here.content == there.content
    changed = write_files(tmp_path / "there", {file: f"{files[file]}numpy<2\n"})
    assert read_requirements(changed).content != here.content


@pytest.mark.parametrize("option", ["-r", "-c"])
def test_a_list_that_is_not_there_is_named(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigurationError, match=r"more\.txt: can't be read"):
        read_requirements(write_files(tmp_path, {"requirements.txt": f"{option} more.txt\n"}))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"requirements.txt": "-r pipe\n"})
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigurationError, match="pipe: can't be read, since it is no file"):
        read_requirements(folder)


def test_lists_outside_of_a_project_are_left_out(tmp_path: Path) -> None:
    listed = "-r ../more.txt\n-c ../pins.txt\n-r inner.txt\nnumpy\n"
    files = {"env/requirements.txt": listed, "env/inner.txt": "scipy\n", "more.txt": "torch\n", "pins.txt": "numpy<3\n"}
    folder = write_files(tmp_path, files) / "env"
    assert read_requirements(folder, within=folder.resolve()).lines == ("scipy", "numpy")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dependencies = 5", r"expected project\.dependencies to be a list of texts, got 5"),
        ("dependencies = [5]", r"expected project\.dependencies to be a list of texts, got \[5\]"),
        ("dynamic = 5", r"expected project\.dynamic to be a list of texts, got 5"),
        ("requires-python = 3.11", r"expected project\.requires-python to be a text, got 3\.11"),
    ],
)
def test_values_of_another_type_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_requirements(write_files(tmp_path, {"pyproject.toml": f"[project]\nname = 'x'\n{text}\n"}))


def test_all_that_matters_is_in_the_content_and_nothing_else(tmp_path: Path) -> None:
    folder = project(tmp_path, "direct")
    plain = read_requirements(folder).content
    write_files(folder, {"server/app.py": "app = 1\n"})
    assert read_requirements(folder).content == plain
    write_files(folder, {"uv.lock": LOCK})
    locked = read_requirements(folder)
    assert locked.is_locked
    assert locked.content != plain
    project(folder, "other")
    assert read_requirements(folder).content not in (plain, locked.content)


def test_a_folder_that_says_nothing_is_told_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"neither a pyproject\.toml with a \[project\] nor a requirements\.txt"
    ):
        read_requirements(tmp_path)


def test_what_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml: is not valid TOML"):
        read_requirements(write_files(tmp_path / "a", {"pyproject.toml": "[project\n"}))
    folder = project(tmp_path / "d")
    (folder / "uv.lock").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"uv\.lock: can't be read"):
        read_requirements(folder)
    dynamic = {"pyproject.toml": "[project]\nname = 'x'\ndynamic = ['dependencies']\n"}
    with pytest.raises(ConfigurationError, match="its dependencies are dynamic"):
        read_requirements(write_files(tmp_path / "c", dynamic))


def test_a_list_of_blanks_takes_no_time_beyond_its_length(tmp_path: Path) -> None:
    listed = "numpy" + " " * 900_000 + "\\\n" + "\n" * 900_000 + "  >=2\nscipy" + " " * 900_000 + ">=1"
    folder = write_files(tmp_path, {"requirements.txt": listed})
    assert [line.split() for line in read_requirements(folder).lines] == [["numpy", ">=2"], ["scipy", ">=1"]]
