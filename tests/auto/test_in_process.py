"""A server in the process of its client."""

import asyncio
import os
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold
from tests.support.environments.common import Add, CounterEnvironment, ThreadedCounterEnvironment, Total
from tests.support.forked import run_forked

import openenv
from openenv import GenericEnvClient
from openenv.auto.in_process import InProcessProvider
from openenv.auto.making import in_process_provider
from openenv.core.client.server_api import fetch_schemas
from openenv.core.env_server import create_app
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerExecutionError, ServerUnauthorizedError

BREAKS = """
import openenv
from openenv import Action, Environment, Observation, State

class Step(Action):
    word: str

class BreakingEnvironment(Environment[Step, Observation, State]):
    def reset(self, seed=None):
        return Observation()

    def step(self, action):
        secret = action.word * 2
        breakpoint()
        return Observation(done=True)

    @property
    def state(self):
        return State()

if __name__ == "__main__":
    with openenv.make(BreakingEnvironment).sync() as client:
        client.reset()
        print(client.step(Step(word="ab")).done)
"""


class SpyingEnvironment(ThreadedCounterEnvironment):
    """Notes which process it is in."""

    seen: int

    def step(self, action: Add) -> Total:
        type(self).seen = os.getpid()
        return super().step(action)


@pytest.mark.parametrize("source", [SpyingEnvironment, partial(SpyingEnvironment), SpyingEnvironment()])
def test_a_class_is_played_in_this_process(source: Any) -> None:
    SpyingEnvironment.seen = 0
    with openenv.make(source).sync() as client:
        client.reset(seed=3)
        result = client.step(Add(amount=2))
    assert (result.observation.total, result.reward) == (2, 2)
    assert isinstance(result.observation, Total)
    assert SpyingEnvironment.seen == os.getpid()


def test_from_a_program_s_own_event_loop() -> None:
    async def play() -> list[Any]:
        async with openenv.make(SpyingEnvironment) as client:
            games = await client.vector(3)
            await games.reset()
            results: list[Any] = await games.step([Add(amount=number) for number in (1, 2, 3)])
            return results

    assert [result.observation.total for result in asyncio.run(play())] == [1, 2, 3]


@pytest.mark.parametrize("token", ["", "sesame"])
@pytest.mark.parametrize("kind", ["class", "folder"])
def test_one_that_trusts_nobody_here_has_a_token(
    kind: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_AUTH", "always")
    monkeypatch.setenv("OPENENV_TOKEN", token)
    source = ThreadedCounterEnvironment if kind == "class" else scaffold(tmp_path, f"guarded{len(token)}_env")
    for _ in range(2):  # the application of a folder is the same each time
        provider = in_process_provider(source)
        with GenericEnvClient(provider=provider).sync() as client:
            client.reset()
            assert provider.token == (token or provider.token)
            with pytest.raises(ServerUnauthorizedError):
                fetch_schemas(provider.base_url)


@pytest.mark.parametrize("names", [(), ("trainer",)])
def test_an_application_that_trusts_nobody_here_has_a_token(names: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("".join(f"[{name}]\nsha256 = '{'0' * 64}'\nrole = 'play'\n" for name in names))
    tokens = file if names else None
    provider = InProcessProvider(
        partial(create_app, ThreadedCounterEnvironment, Add, Total, auth="always", tokens=tokens)
    )
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        with pytest.raises(ServerUnauthorizedError):
            fetch_schemas(provider.base_url)


def test_what_it_raises_comes_with_its_place() -> None:
    with openenv.make(CounterEnvironment).sync() as client:
        client.reset()
        with pytest.raises(ServerExecutionError, match=r"ValueError: kaboom \(.*common.py, line \d+, in add\)"):
            client.step(Add(amount=0))


def test_a_patch_of_the_class_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CounterEnvironment, "step", lambda self, action: Total(total=7))
    with openenv.make(CounterEnvironment).sync() as client:
        client.reset()
        assert client.step(Add(amount=1)).observation.total == 7


def test_a_folder_and_a_name(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "near_env")
    for _ in range(2):  # its application is made once, and served twice
        with openenv.make(folder, in_process=True).sync() as client:
            assert client.reset().observation.echoed_message
    with openenv.make(folder, in_process=True, max_sessions=2).sync() as client:
        client.vector(2)


def test_it_ends_with_its_client() -> None:
    before = set(threading.enumerate())
    with openenv.make(SpyingEnvironment).sync() as client:
        client.reset()
        assert {thread.name for thread in set(threading.enumerate()) - before} >= {"openenv-server"}
    assert "openenv-server" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("options", [{"in_process": False}, {"env_vars": {"A": "b"}}, {"venv": True}])
def test_what_a_class_does_not_go_with(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is served in this process"):
        openenv.make(CounterEnvironment, **options)


def test_an_address_is_elsewhere() -> None:
    with pytest.raises(ConfigurationError, match="in_process=True needs an environment that can be served here"):
        openenv.make("http://localhost:9", in_process=True)


def test_what_can_t_be_made_is_said_at_once() -> None:
    class Sized(CounterEnvironment):
        def __init__(self, size: int) -> None:
            super().__init__()

    with pytest.raises(ConfigurationError, match="Sized is called without arguments for each session"):
        openenv.make(Sized)


def test_a_provider_runs_one_server() -> None:
    provider = in_process_provider(CounterEnvironment)
    with pytest.raises(ProviderError, match="call start"):
        _ = provider.base_url
    with provider, pytest.raises(ProviderError, match="is running at http://127"):
        provider.start()
    with pytest.raises(ProviderError, match="is started with a port only, but got A too"):
        provider.start(env_vars={"A": "b"})
    assert isinstance(provider, InProcessProvider)


def run(arguments: list[str], typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"}
    return run_forked(arguments, cwd=folder, env=variables, typed=typed, timeout=120)


def test_a_breakpoint_stops_in_the_step(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(BREAKS)
    ended = run(["breaks.py"], "p secret\nc\n", tmp_path)
    assert "'abab'" in ended.stdout
    assert ended.stdout.endswith("True\n")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_breakpoint_in_a_process_that_nobody_can_type_into_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(BREAKS)
    ended = run(["-m", "openenv.cli", "play", "breaks.py", "--seed", "1"], "ab\nq\n", tmp_path)
    said = "The environment failed: RuntimeError: breakpoint() needs the environment in the process that has"
    assert said in " ".join(ended.stdout.split())
    ended = run(
        ["-m", "openenv.cli", "play", "breaks.py", "--in-process", "--seed", "1"], "ab\np secret\nc\nq\n", tmp_path
    )
    assert "'abab'" in ended.stdout
    assert "The episode is over" in ended.stdout
