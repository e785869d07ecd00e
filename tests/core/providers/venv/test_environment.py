"""Environments of folders: really built, from wheels that the tests bring along."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest
from tests.support.environment_folders import write_files
from tests.support.processes import wait_until_gone
from tests.support.servers import eventually
from tests.support.wheels import make_wheel

import openenv
from openenv.core.providers.cache import cache_folder
from openenv.core.providers.venv.installer import find_uv
from openenv.core.providers.venv.environment import KEPT_VARIABLE, READY_FILE, hold_environment
from openenv.core.exceptions import ConfigurationError, ProviderError

BUILD = """
import logging, sys
from pathlib import Path
from openenv.core.providers.venv.environment import hold_environment
logging.basicConfig(level=logging.INFO, format="%(message)s")
print(hold_environment(Path(sys.argv[1])).path, flush=True)
"""

# Stands before uv: notes each command, and holds an installation until a file is there.
NOTING_UV = """#!/bin/sh
echo "$1 $2" >> "{folder}/commands"
if [ "$1" = pip ] && [ -e "{folder}/hold" ]; then
    echo $$ > "{folder}/holding" && mv "{folder}/holding" "{folder}/held"
    while [ -e "{folder}/hold" ]; do sleep 0.05; done
fi
exec "{uv}" "$@"
"""


def project(folder: Path, *dependencies: str, **files: str) -> Path:
    text = f"[project]\nname = 'my-env'\nversion = '0.1'\ndependencies = {list(dependencies)}\n"
    return write_files(folder, {"pyproject.toml": text, **files})


def seen_by(venv: Path, expression: str) -> str:
    """What a program sees that runs in an environment."""
    command = [str(venv / "bin" / "python"), "-P", "-c", f"import openenv, sys; print({expression})"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def noting_uv(offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which uv's commands are noted, and held while there is a file ``hold``."""
    folder = tmp_path / "uv"
    folder.mkdir()
    script = write_files(folder, {"uv": NOTING_UV.format(folder=folder, uv=find_uv())}) / "uv"
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def commands(folder: Path) -> list[str]:
    return (folder / "commands").read_text().splitlines()


def environment_for(folder: Path) -> Path:
    with hold_environment(folder) as held:
        return held.path


def lock_in(folder: Path) -> None:
    """Have uv choose versions for a project."""
    uv = find_uv()
    assert uv is not None
    subprocess.run([uv, "lock", "--python", sys.executable], cwd=folder, check=True, capture_output=True)


def test_an_environment_has_what_its_folder_asks_for_and_the_openenv_that_runs_here(
    offline: Path, tmp_path: Path
) -> None:
    make_wheel(offline, "dice-lore", "1.0")
    make_wheel(offline, "rich", "99.0", modules={"rich/__init__.py": "", "rich/console.py": ""})
    # OpenEnv is not what the index has under its names, whatever asks for which of them. What it needs is not pinned.
    wrong = {"openenv/__init__.py": "WRONG = 1\n"}
    make_wheel(offline, "openenv-core", "99.0", requires=["only-needed-there", "docker==0.1"], modules=wrong)
    make_wheel(offline, "openenv", "99.0", modules=wrong)
    make_wheel(offline, "only-needed-there")
    make_wheel(offline, "docker", "0.1")
    folder = project(tmp_path / "my_env", "dice-lore", "rich==99", "openenv-core>=0.2", "openenv>=0.1")
    lock_in(folder)
    make_wheel(offline, "dice-lore", "2.0")
    (offline / "openenv-99.0-py3-none-any.whl").unlink()
    asked = (folder / "pyproject.toml").read_text().replace("openenv-core>", "openenv-core[docker,other]>")
    write_files(folder, {"pyproject.toml": asked})

    venv = environment_for(folder)

    assert venv.parent == cache_folder("venvs")
    assert not (folder / ".venv").exists()
    assert seen_by(venv, "__import__('dice_lore').VERSION") == "1.0"
    assert seen_by(venv, "sys.prefix") == str(venv)
    assert seen_by(venv, "hasattr(openenv, 'WRONG')") == "False"
    assert seen_by(venv, "__import__('importlib.metadata').metadata.version('rich')") == "99.0"
    assert seen_by(venv, "openenv.__version__") == openenv.__version__
    assert seen_by(venv, "__import__('docker').__version__") == docker.__version__
    assert seen_by(venv, "__import__('importlib.util').util.find_spec('only_needed_there')") == "None"


def test_an_editable_openenv_is_one_there_too_and_another_is_copied(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "my_env")
    editable = environment_for(folder)
    assert seen_by(editable, "openenv.__file__") == openenv.__file__

    monkeypatch.setattr("openenv.core.providers.venv.wheel.is_editable", lambda: False)
    copied = environment_for(folder)
    assert seen_by(copied, "openenv.__file__").startswith(str(copied))


def test_what_was_built_is_used_again_until_something_else_is_needed(noting_uv: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "own-wheels", "dice-lore")
    folder = project(tmp_path / "my_env", "dice-lore")
    first = environment_for(folder)
    assert commands(noting_uv) == ["venv --no-project", "pip install"]

    write_files(folder, {"server/app.py": "app = 1\n"})
    assert environment_for(folder) == first
    assert len(commands(noting_uv)) == 2

    project(folder, "dice-lore>=1")
    second = environment_for(folder)
    assert second != first
    assert len(commands(noting_uv)) == 4
    assert (first / READY_FILE).exists()


def test_builders_of_the_same_environment_wait_for_each_other(noting_uv: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "my_env")
    with ThreadPoolExecutor(4) as threads:
        in_threads = [threads.submit(environment_for, folder) for _ in range(3)]
        elsewhere = subprocess.run([sys.executable, "-c", BUILD, str(folder)], capture_output=True, text=True)
        found = {future.result() for future in in_threads} | {Path(elsewhere.stdout.strip())}

    assert len(found) == 1, elsewhere.stderr
    assert commands(noting_uv) == ["venv --no-project", "pip install"]


def test_a_build_that_fails_says_why_and_leaves_nothing(offline: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "my_env", "no-such-package-anywhere")
    with pytest.raises(ProviderError, match=r"Building the Python environment of .*my_env failed") as error:
        environment_for(folder)
    assert "no-such-package-anywhere" in (error.value.logs or "")
    assert [path.suffix for path in cache_folder("venvs").iterdir()] == [".lock"]

    make_wheel(offline, "no-such-package-anywhere")
    assert (environment_for(folder) / READY_FILE).exists()


def test_those_used_least_recently_are_removed_but_none_that_is_in_use(
    noting_uv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEPT_VARIABLE, "2")
    folders = [project(tmp_path / name) for name in ("a_env", "b_env", "c_env", "d_env", "e_env")]
    first, second = map(environment_for, folders[:2])
    os.utime(second / READY_FILE, (1000, 1000))
    os.utime(first / READY_FILE, (500, 500))
    environment_for(folders[0])  # which is a use
    third = environment_for(folders[2])
    assert [path.exists() for path in (first, second, third)] == [True, False, True]

    os.utime(first / READY_FILE, (500, 500))
    with hold_environment(folders[0]) as held, subprocess.Popen(["sleep", "600"], pass_fds=[held.descriptor]) as user:
        held.close()  # the program that was started with its descriptor still uses it
        os.utime(first / READY_FILE, (500, 500))
        fourth = environment_for(folders[3])
        assert [path.exists() for path in (first, third, fourth)] == [True, True, True]
        user.kill()
    environment_for(folders[4])
    assert not first.exists()


@pytest.mark.parametrize("wrong", ["0", "many", "-1"])
def test_how_many_are_kept_is_a_number(noting_uv: Path, wrong: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(KEPT_VARIABLE, wrong)
    with pytest.raises(ConfigurationError, match=f"{KEPT_VARIABLE} is a number of Python environments"):
        environment_for(project(tmp_path / "my_env"))


def test_a_killed_builder_harms_nobody_and_what_it_started_is_waited_for(noting_uv: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "my_env")
    (noting_uv / "hold").touch()
    command = [sys.executable, "-c", BUILD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as killed:
        eventually((noting_uv / "held").exists, "uv installs")
        killed.kill()
    orphan = int((noting_uv / "held").read_text())

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting for another process that builds my_env")
        assert len(commands(noting_uv)) == 2
        (noting_uv / "hold").unlink()
        wait_until_gone(orphan, timeout_s=60)
        printed = waiting.communicate(timeout=100)[0].strip()

    assert len(commands(noting_uv)) == 4  # what was left half made was not taken for whole
    assert seen_by(Path(printed), "sys.prefix") == printed


def test_another_python_is_not_tried(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"pyproject.toml": "[project]\nname = 'x'\nrequires-python = '>=4'\n"})
    with pytest.raises(ConfigurationError, match=r"requires Python >=4, and this is 3\."):
        environment_for(folder)
    write_files(tmp_path, {"pyproject.toml": "[project]\nname = 'x'\nrequires-python = 'new'\n"})
    with pytest.raises(ConfigurationError, match="requires-python is no version"):
        environment_for(folder)


def test_only_folders_have_environments(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"made for an environment's folder, and .*nowhere is none"):
        environment_for(tmp_path / "nowhere")


def test_without_uv_nothing_is_built(offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.providers.venv.environment.find_uv", lambda: None)
    with pytest.raises(ProviderError, match="built by uv, which is not installed: pip install uv"):
        environment_for(project(tmp_path / "my_env"))
