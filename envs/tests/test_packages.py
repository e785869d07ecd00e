"""What every environment's package must do, whatever it plays."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from openenv.auto.discovery import find_environment, list_environments
from openenv.auto.package import EnvironmentPackage
from openenv.core.containers.health import wait_until_healthy
from openenv.core.containers.local_process import LocalProcessProvider
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import ServerCapacityError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.typed_client import TypedEnvClient

ENVIRONMENTS = Path(__file__).parents[1]
NAMES = ["echo", "openspiel", "catch", "wordle"]
PACKAGES = sorted(path.parent.name for path in ENVIRONMENTS.glob("*/pyproject.toml"))
READMES = sorted(path for path in ENVIRONMENTS.rglob("README.md") if (path.parent / "openenv.yaml").exists())
SESSIONS = {"echo": 8, "openspiel": 8, "catch": 256, "wordle": 8}


def run(*command: str, **variables: str) -> str:
    # Nothing of the caller's environment: what is found must be found because it is installed.
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_are_tested_here() -> None:
    assert {find_environment(path.parent).folder for path in READMES} == {find_environment(n).folder for n in NAMES}
    assert set(NAMES) <= {package.name for package in list_environments()}


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_names_classes_that_are_there(name: str) -> None:
    package = find_environment(name)
    assert package.description
    assert issubclass(package.client_class(), EnvClient)
    assert issubclass(package.environment_class(), Environment)
    assert package.environment_class().SUPPORTS_CONCURRENT_SESSIONS
    made = (package.action_class(), package.observation_class())
    assert all(each.__doc__ for each in made)
    client = package.client_class()
    if issubclass(client, TypedEnvClient):
        assert (client.action_class, client.observation_class) == made
    else:
        assert name == "echo", "its client reads what tools give, too"


@pytest.mark.parametrize("name", ["catch", "wordle"])
def test_a_player_is_made_anew_for_each_episode(name: str) -> None:
    package = find_environment(name)
    environment = package.environment_class()()
    player, again = package.make_player(1), package.make_player(1)
    assert player is not None
    assert again is not None
    observation = environment.reset(seed=1)
    assert player(observation) == again(observation)


@pytest.mark.parametrize("name", NAMES)
def test_the_class_alone_is_enough_to_serve_it(name: str) -> None:
    """``serve(Class)`` and the manifest find the same types that ``server/app.py`` gives."""
    assert (
        _types(find_environment(name))
        == {
            "echo": ("EchoAction", "EchoObservation", "State"),
            "openspiel": ("OpenSpielAction", "OpenSpielObservation", "OpenSpielState"),
            "catch": ("CatchAction", "CatchObservation", "State"),
            "wordle": ("WordleAction", "WordleObservation", "WordleState"),
        }[name]
    )


def _types(package: EnvironmentPackage) -> tuple[str, ...]:
    bases = package.environment_class().__orig_bases__  # type: ignore[attr-defined]  # every generic class has it
    return tuple(argument.__name__ for argument in bases[0].__args__)


@pytest.mark.parametrize("module", ["echo_env", "openspiel_env", "openspiel_env.catch", "wordle_env"])
def test_the_client_side_loads_neither_server_nor_game(module: str) -> None:
    program = f"""
import sys, {module}
heavy = {{"fastapi", "uvicorn", "pyspiel", "numpy", "spellchecker", "wonderwords", "torch", {module!r} + ".server"}}
print(*sorted(heavy & set(sys.modules)))
"""
    assert run(sys.executable, "-c", program).strip() == ""


@pytest.mark.parametrize(
    "names",
    [
        "echo_env: EchoAction, EchoEnv, EchoObservation",
        "openspiel_env: OpenSpielAction, OpenSpielEnv, OpenSpielObservation, OpenSpielState",
        "openspiel_env.catch: CatchAction, CatchEnv, CatchObservation",
        "wordle_env: WordleAction, WordleEnv, WordleObservation, WordleState",
    ],
)
def test_the_packages_are_importable_from_a_checkout(names: str, tmp_path: Path) -> None:
    module, _, attributes = names.partition(": ")
    program = f"from envs.{module} import {attributes}; import envs.{module}.server.app"
    run(sys.executable, "-c", program, PYTHONPATH=str(ENVIRONMENTS.parent), HOME=str(tmp_path))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_the_readme_shows_what_happens(readme: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    with LocalProcessProvider(readme.parent) as server:
        for program, printed in blocks:
            shown = run(
                sys.executable,
                "-c",
                program.replace("http://localhost:8000", server.base_url),
                PYTHONIOENCODING="utf-8",
            )
            assert shown == printed


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_the_package_and_not_its_tests(name: str, tmp_path: Path) -> None:
    source = tmp_path / name
    shutil.copytree(
        ENVIRONMENTS / name, source, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__", "outputs")
    )
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run(*pip, "--wheel-dir", str(tmp_path), str(source), PATH=os.environ["PATH"], HOME=str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    held = {path for path in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in path}
    kept = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    expected = {
        f"{name}/{path}"
        for path in kept
        if path.parts[0] not in ("tests", "build")
        and not path.parts[0].endswith(".egg-info")
        and (path.suffix == ".py" or path.name in ("openenv.yaml", "README.md", "py.typed"))
    }
    assert held == expected


@contextmanager
def program(*command: str) -> Iterator[str]:
    """Run a server's own program on a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, 30, lambda: _check(server))
        yield url
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.communicate(timeout=10)
        server.kill()


def _check(server: "subprocess.Popen[str]") -> None:
    if server.poll() is not None:
        assert server.stdout is not None
        pytest.fail(f"the server ended: {server.stdout.read()}")


@pytest.mark.parametrize(
    "module",
    ["echo_env.server.app", "openspiel_env.server.app", "openspiel_env.catch.server.app", "wordle_env.server.app"],
)
async def test_the_servers_own_program_serves(module: str) -> None:
    with program(sys.executable, "-m", module) as url:
        async with GenericEnvClient(base_url=url) as env:
            assert not (await env.reset(seed=1)).done


@pytest.mark.parametrize("name", NAMES)
async def test_as_many_sessions_are_granted_as_the_readme_says(name: str) -> None:
    with LocalProcessProvider(name) as server:
        clients = [GenericEnvClient(base_url=server.base_url) for _ in range(SESSIONS[name] + 1)]
        answers = await asyncio.gather(*(client.reset() for client in clients), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        await asyncio.gather(*(client.close() for client in clients))
    assert [type(answer) for answer in refused] == [ServerCapacityError]
    stated = re.search(r"MAX_CONCURRENT_ENVS`\D*?(\d+)", (find_environment(name).folder / "README.md").read_text())
    assert stated is not None
    assert int(stated[1]) == SESSIONS[name]


async def test_the_number_of_sessions_follows_its_variable() -> None:
    with LocalProcessProvider("echo", env_vars={"MAX_CONCURRENT_ENVS": "1"}) as server:
        async with GenericEnvClient(base_url=server.base_url) as first, GenericEnvClient(server.base_url) as second:
            await first.reset()
            with pytest.raises(ServerCapacityError):
                await second.reset()
