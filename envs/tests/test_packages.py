"""What every environment's package must be before anybody serves it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest

from openenv.auto.about import about_package
from openenv.auto.discovery import find_environment, list_environments
from openenv.auto.package import EnvironmentPackage
from openenv.core.env_client import EnvClient
from openenv.core.environment_types import environment_types
from openenv.validation import validate_folder

from .every_environment import DISTRIBUTIONS, ENVIRONMENTS, PACKAGES, each_environment, readme_of

SERVER_SIDE = {"fastapi", "starlette", "uvicorn"}
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


@pytest.fixture(params=each_environment())
def package(request: pytest.FixtureRequest) -> EnvironmentPackage:
    """Each environment."""
    found: EnvironmentPackage = request.param
    return found


def looked_at(look: str, *targets: str, **variables: str) -> dict[str, Any]:
    """What ``forked.py`` sees of each target. Nothing of the caller's environment helps to find it."""
    command = [sys.executable, str(Path(__file__).with_name("forked.py")), look, *targets]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **variables}, capture_output=True, encoding="utf-8", timeout=200
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {target: seen if fault is None else AssertionError(fault) for target, seen, fault in answers}


def seen_of(target: str, seen: dict[str, Any]) -> Any:
    """What was seen of one target, or how it failed."""
    if isinstance(seen[target], AssertionError):
        raise seen[target]
    return seen[target]


def project(package: EnvironmentPackage) -> dict[str, object]:
    """The ``project`` table of the distribution that a package belongs to."""
    folder = next(folder for folder in DISTRIBUTIONS if package.folder.is_relative_to(folder))
    table: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """The name that each installed package goes by, by its import path."""
    return {package.module: package.name for package in list_environments()}


def test_every_folder_is_tested_and_installed(package: EnvironmentPackage) -> None:
    installed = {found.folder: found.module for found in list_environments()}
    assert installed.get(package.folder) == package.module, f"pip install -e {package.folder}"


@pytest.mark.level("files")
def test_it_passes_validation_without_a_warning(package: EnvironmentPackage) -> None:
    report = validate_folder(package.folder)
    assert {result.check_id: result.evidence for result in report.results if result.status != "pass"} == {}


def test_it_is_found_by_the_forms_of_its_name(package: EnvironmentPackage, names: dict[str, str]) -> None:
    name = names[package.module]
    for form in (name.replace("_", "-").title(), f"{name}_env"):
        assert find_environment(form).folder == package.folder


def test_the_manifest_names_what_is_there(package: EnvironmentPackage) -> None:
    environment = package.environment_class()
    assert package.description
    assert package.version == project(package)["version"]
    assert environment.SUPPORTS_CONCURRENT_SESSIONS
    assert environment.__doc__
    assert issubclass(package.client_class(), EnvClient)
    # ``serve(Class)`` and the manifest find the same types that ``server/app.py`` gives.
    types = environment_types(environment)
    assert (package.action_class(), package.observation_class()) == (types.action, types.observation)
    client = package.client_class()
    assert getattr(client, "action_class", types.action) is types.action
    assert getattr(client, "observation_class", types.observation) is types.observation


def test_actions_and_observations_are_described(package: EnvironmentPackage) -> None:
    assert package.observation_class().__doc__
    schema = package.action_class().model_json_schema()
    assert schema.get("description") or schema.get("oneOf"), "the class of the actions has no docstring"
    for kind in [schema, *schema.get("$defs", {}).values()]:
        for name, field in kind.get("properties", {}).items():
            assert name == "metadata" or "const" in field or field.get("description"), f"{kind.get('title')}.{name}"


def test_openenv_info_has_all_to_tell(package: EnvironmentPackage) -> None:
    told = about_package(package)
    assert told.summary
    assert told.actions or told.tools
    assert told.reset is not None
    assert {"seed", "episode_id"} <= {field.name for field in told.reset}
    assert all(field.description for field in told.reset), told.reset
    assert told.reward, "README.md has no line `- **Reward**: ...`"
    assert told.end, "README.md has no line `- **End**: ...`"
    assert told.example


def test_the_readme_says_how_well_its_player_plays(package: EnvironmentPackage) -> None:
    assert package.manifest.player, "name its player in openenv.yaml"
    section = re.search(r"^## The player\n(.*?)(?=^## |\Z)", readme_of(package), re.DOTALL | re.MULTILINE)
    assert section, "README.md has no section `## The player`"
    assert "make_player(seed)" in section[1]
    # Its own score, and that of a player that plays at random.
    assert len(re.findall(r"-?\d+\.\d+", section[1])) >= 2
    assert "random" in section[1]


@pytest.fixture(scope="module")
def client_sides() -> dict[str, Any]:
    """The modules that are loaded once each package is imported."""
    return looked_at("client_side", *(package.module for package in PACKAGES))


@pytest.fixture(scope="module")
def modules_of() -> dict[str, set[str]]:
    """The modules that each installed distribution brings, by its name in small letters."""
    brought: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            brought.setdefault(distribution.lower(), set()).add(module)
    return brought


def test_the_client_side_loads_neither_server_nor_what_only_that_needs(
    package: EnvironmentPackage, client_sides: dict[str, Any], modules_of: dict[str, set[str]]
) -> None:
    loaded = set(seen_of(package.module, client_sides))
    needed = _needed_by(str(project(package)["name"])) - _needed_by("openenv-core") - {"openenv-core"}
    heavy = set().union(*(modules_of.get(distribution, set()) for distribution in needed))
    assert package.module in loaded
    assert loaded & (heavy | SERVER_SIDE) == set()
    assert {module for module in loaded if ".server" in module and module.startswith(package.module)} == set()


def _needed_by(distribution: str) -> set[str]:
    return {found[0].lower() for each in requires(distribution) or () if (found := NAME.match(each))}


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The missing names of each package, imported from a checkout, and its server's metrics."""
    home = str(tmp_path_factory.mktemp("home"))
    modules = [f"envs.{package.module}" for package in PACKAGES]
    return looked_at("checkout", *modules, PYTHONPATH=str(ENVIRONMENTS.parent), HOME=home)


def test_it_is_importable_from_a_checkout(package: EnvironmentPackage, checkouts: dict[str, Any]) -> None:
    missing, _ = seen_of(f"envs.{package.module}", checkouts)
    assert missing == []


def test_it_offers_as_many_sessions_as_its_readme_says(package: EnvironmentPackage, checkouts: dict[str, Any]) -> None:
    _, metrics = seen_of(f"envs.{package.module}", checkouts)
    capacity = re.search(r"^openenv_sessions_capacity (\d+)", metrics, re.MULTILINE)
    stated = re.search(r"MAX_CONCURRENT_ENVS`\D*?(\d+)", readme_of(package))
    assert capacity is not None
    assert stated is not None, "README.md does not say what MAX_CONCURRENT_ENVS is by default"
    assert int(stated[1]) == int(capacity[1])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of copies of all distributions, beside which their wheels are built."""
    folder = tmp_path_factory.mktemp("wheels")
    left_out = shutil.ignore_patterns("*.egg-info", "build", "__pycache__", "outputs")
    for source in DISTRIBUTIONS:
        shutil.copytree(source, folder / "sources" / source.name, ignore=left_out)
    (folder / "built").mkdir()
    return folder / "sources"


@pytest.fixture(scope="module")
def wheels(sources: Path) -> dict[str, Any]:
    """The file of each wheel, by the folder that it is built from."""
    return looked_at("wheel", *map(str, sources.iterdir()), HOME=str(sources.parent))


@pytest.mark.parametrize("name", [folder.name for folder in DISTRIBUTIONS])
def test_a_wheel_holds_the_package_and_not_its_tests(name: str, sources: Path, wheels: dict[str, Any]) -> None:
    source = sources / name
    wheel = sources.parent / "built" / seen_of(str(source), wheels)
    held = {path for path in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in path}
    expected = {
        f"{name}/{path.relative_to(source)}"
        for path in source.rglob("*")
        if path.is_file() and _is_published(path.relative_to(source))
    }
    # What else it holds is data that it needs, and none of the code.
    assert expected <= held
    assert {path for path in held - expected if path.endswith(".py") or "/tests/" in path} == set()


def _is_published(path: Path) -> bool:
    if path.parts[0] in ("tests", "build") or path.parts[0].endswith(".egg-info"):
        return False
    return path.suffix == ".py" or path.name in ("openenv.yaml", "README.md", "py.typed")
