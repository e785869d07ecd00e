"""OpenEnv has two names for pip: ``openenv-core`` has the code, and ``openenv`` requires it."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.wheels import make_wheel

from openenv.core.providers.venv.installer import find_uv
from openenv.core.providers.venv.wheel import is_from_index, pack_openenv

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "distributions" / "openenv"
UV = find_uv() or "uv"
IMPORT_BOTH = "import openenv, openenv._lazy"
SENTENCE = "holds files of two packages"
SHADOWED = "finds the public package in"
REMAINS = "has a part of this OpenEnv only"


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


@pytest.fixture
def wheels(offline: Path) -> Path:
    """The wheels of both distributions, and of a package that was written for the public one."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(offline), str(FOLDER)], check=True)
    pack_openenv(offline)
    make_wheel(offline, "their-env", requires=["openenv[core]>=0.2"])
    return offline


def install(folder: Path, *requirements: str) -> Path:
    """Make a virtual environment with packages; return its interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    command = [UV, "pip", "install", "--quiet", "--no-index", "--python", str(python), *requirements]
    subprocess.run(command, check=True)
    return python


def public_package(folder: Path) -> Path:
    """Make a wheel that has what every release of the public package has."""
    modules = {"openenv/__init__.py": "", "openenv/cli/_cli_utils.py": ""}
    return make_wheel(folder, "openenv", "0.10.0", modules=modules)


def editable(folder: Path) -> Path:
    """Leave what an editable install of this package does in a virtual environment; return its folder of packages."""
    site = next(folder.glob("lib/python*/site-packages"))
    for name in ("_openenv_mixture.py", "openenv_mixture.pth"):
        (site / name).write_bytes((ROOT / "src" / name).read_bytes())
    (site / "_editable_impl_openenv_core.pth").write_text(str(ROOT / "src"))
    return site


def said_by(python: Path, program: str) -> str:
    finished = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr + finished.stdout


def test_both_have_the_same_version_and_extras() -> None:
    core, other = project(ROOT), project(FOLDER)
    pinned = f"=={core['version']}"
    assert other["version"] == core["version"]
    assert other["dependencies"] == [f"openenv-core[core]{pinned}"]
    extras = {name: [f"openenv-core[{name}]{pinned}"] for name in core["optional-dependencies"]}
    assert other["optional-dependencies"] == extras


def test_with_core_images_can_be_started() -> None:
    extras = project(ROOT)["optional-dependencies"]
    assert set(extras["docker"]) <= set(extras["core"])


def test_a_package_for_the_public_openenv_gets_this_one(wheels: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "venv", "their-env")
    assert said_by(python, "import openenv, their_env; print(hasattr(openenv, 'make'))").strip() == "True"
    assert (
        said_by(python, f"from {is_from_index.__module__} import is_from_index; print(is_from_index())").strip()
        == "True"
    )


def test_pip_finds_everything_too(wheels: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    finished = subprocess.run([*command, "their-env"], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    installed = {entry["metadata"]["name"] for entry in json.loads(finished.stdout)["install"]}
    assert {"their-env", "openenv", "openenv-core", "fastmcp"} <= installed


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_a_mixture_with_the_public_package_is_noticed_at_import(offline: Path, tmp_path: Path, order: str) -> None:
    theirs = public_package(tmp_path / "public")
    ours = pack_openenv(tmp_path / "ours")
    first, second = (ours, theirs) if order == "ours first" else (theirs, ours)
    python = install(tmp_path / "venv", "--no-deps", str(first))
    assert SENTENCE not in said_by(python, "import openenv")
    install(tmp_path / "venv", "--no-deps", str(second))
    for program in (IMPORT_BOTH, "import openenv", "from openenv.cli import _cli_utils"):
        said = said_by(python, program)
        assert said.count(SENTENCE) == 1, program
        assert "pip uninstall --yes openenv openenv-core" in said
    assert said_by(python, "import json") == ""


def test_a_public_package_before_an_editable_install_is_noticed_at_import(offline: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "venv", "--no-deps", str(public_package(tmp_path / "public")))
    site = editable(tmp_path / "venv")
    for program in ("import openenv", "import openenv.cli._cli_utils"):
        said = said_by(python, program)
        assert said.count(SHADOWED) == 1, program
        assert str(site / "openenv") in said
        assert str(ROOT / "src" / "openenv") in said
    assert said_by(python, "import json") == ""
    (site / "_editable_impl_openenv_core.pth").unlink()
    assert said_by(python, "import openenv") == "", "the public package alone"


def test_a_public_package_on_the_path_is_noticed_where_it_is_the_one_that_is_imported(tmp_path: Path) -> None:
    public = tmp_path / "public"
    (public / "openenv" / "cli").mkdir(parents=True)
    for name in ("__init__.py", "cli/_cli_utils.py"):
        (public / "openenv" / name).touch()
    python = install(tmp_path / "venv", "--no-deps", str(pack_openenv(tmp_path / "ours")))
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    for paths, count in ((f"{public}", 1), (f"{site}:{public}", 0), (f"{public}:{site}", 1)):
        environment = {"PYTHONPATH": paths, "PATH": ""}
        finished = subprocess.run([python, "-c", "import openenv"], capture_output=True, text=True, env=environment)
        assert (finished.returncode, finished.stderr.count(SHADOWED)) == (0, count), finished.stderr


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_what_is_left_when_the_public_package_is_uninstalled_is_noticed_at_import(
    offline: Path, tmp_path: Path, order: str
) -> None:
    ours, theirs = pack_openenv(tmp_path / "ours"), public_package(tmp_path / "public")
    for wheel in (ours, theirs) if order == "ours first" else (theirs, ours):
        python = install(tmp_path / "venv", "--no-deps", str(wheel))
    subprocess.run([UV, "pip", "uninstall", "--quiet", "--python", str(python), "openenv"], check=True)
    for program in ("import openenv", IMPORT_BOTH, "import openenv.core"):
        said = said_by(python, program)
        assert said.count(REMAINS) == 1, program
        assert "pip uninstall --yes openenv openenv-core" in said
    install(tmp_path / "venv", "--no-deps", "--reinstall", str(ours))
    assert said_by(python, "import openenv") == ""


def test_a_public_package_in_a_folder_that_a_program_adds_is_noticed_at_import(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.unpack_archive(public_package(tmp_path / "public"), checkout, "zip")
    (checkout / "play.py").write_text("import openenv")
    python = install(tmp_path / "venv", "--no-deps", str(pack_openenv(tmp_path / "ours")))
    inserted = ["-I", "-c", f"import sys; sys.path.insert(0, {str(checkout)!r}); import openenv"]
    for words in ([str(checkout / "play.py")], ["-c", "import openenv"], inserted):
        finished = subprocess.run([python, *words], capture_output=True, text=True, cwd=checkout)
        assert (finished.returncode, finished.stderr.count(SHADOWED)) == (0, 1), (words, finished.stderr)
        assert str(checkout / "openenv") in finished.stderr
