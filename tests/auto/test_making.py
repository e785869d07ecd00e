"""From a name, a folder or an address to a client that plays."""

import asyncio
from pathlib import Path

import pytest
from tests.support.environment_folders import public_environment, scaffold
from tests.support.environments.common import CounterEnvironment
from tests.support.servers import RunningServer

import openenv
import openenv.traces
from openenv import GenericEnvClient
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, ProviderError, ServerCapacityError


def test_a_folder_gives_its_typed_client_with_a_server_of_its_own(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    action = openenv.find_environment(folder).action_class()
    with openenv.make(folder).sync() as client:
        assert client.reset(seed=1).observation.echoed_message == "My Env environment ready!"
        assert client.step(action(message="hello")).reward == 0.5


def test_a_public_folder_works_unchanged(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    client = openenv.make(str(folder))
    assert type(client).__name__ == "TallyGameEnv"
    action = openenv.find_environment(folder).action_class()
    client.reset()
    assert client.step(action(amount=4)).observation.total == 4
    client.close()


async def test_async_use(tmp_path: Path) -> None:
    action = openenv.find_environment(scaffold(tmp_path, "my_env")).action_class()
    async with openenv.make(tmp_path / "my_env") as client:
        await client.reset()
        result = await client.step(action(message="hi"))
        assert result.observation.message_length == 2


def test_a_name_gives_the_installed_environment() -> None:
    with openenv.make("echo").sync() as client:
        assert type(client.async_client).__name__ == "EchoEnv"
        assert client.reset().observation.echoed_message == "Echo environment ready!"


def test_nothing_starts_before_the_first_call(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    app = folder / "server" / "app.py"
    app.write_text(f"from pathlib import Path\nPath(__file__).with_name('started').touch()\n{app.read_text()}")
    client = openenv.make(folder).sync()
    assert not (folder / "server" / "started").exists()
    client.connect()
    assert (folder / "server" / "started").exists()
    client.close()


def test_the_servers_settings_reach_it(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    with openenv.make(folder, max_sessions=1).sync() as client:
        client.reset()
        with pytest.raises(ServerCapacityError):
            client.new_session()


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("target", ["echo", "gymnasium:CliffWalking-v1"])
def test_a_started_server_keeps_its_episodes(tmp_path: Path, target: str, in_process: bool) -> None:
    file = tmp_path / "traces.db"
    with openenv.make(target, in_process=in_process, traces=file).sync() as client:
        client.reset(seed=4)
    with openenv.traces.open(file) as traces:
        assert [episode.seed for episode in traces.episodes()] == ["4"]


def test_episodes_of_a_class_are_kept_and_an_address_keeps_its_own(tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    with openenv.make(CounterEnvironment, traces=str(file)).sync() as client:
        client.reset(seed=4)
    with openenv.traces.open(file) as traces:
        assert [episode.seed for episode in traces.episodes()] == ["4"]
    with pytest.raises(ConfigurationError, match="traces is for a server that make starts"):
        openenv.make("http://127.0.0.1:9", traces=file)


def test_an_environment_of_its_own_is_asked_of_the_folder(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)  # which does not say what it needs
    client = openenv.make(folder, venv=True).sync()
    with pytest.raises(ConfigurationError, match=r"tally_env has neither a pyproject\.toml"):
        client.reset()
    with pytest.raises(ConfigurationError, match="venv needs an environment's folder"):
        openenv.make("gymnasium:CartPole-v1", venv=True)


def test_client_settings_reach_the_client() -> None:
    client = openenv.make("http://127.0.0.1:9", message_timeout_s=1.5, mode="production")
    assert client.mode == "production"
    with pytest.raises(TypeError, match="no_such_setting"):
        openenv.make("http://127.0.0.1:9", no_such_setting=1)


def test_an_address_gives_dicts_or_the_types_of_a_package(counter_server: RunningServer) -> None:
    assert type(openenv.make(counter_server.url)) is GenericEnvClient
    typed = openenv.make(counter_server.url, environment="echo")
    assert type(typed).__name__ == "EchoEnv"
    with openenv.make(counter_server.url).sync() as client:
        assert client.reset().done is False


def test_an_unknown_name_is_told_at_once() -> None:
    with pytest.raises(EnvironmentNotFoundError, match="No environment is called 'no-such'"):
        openenv.make("no-such")


def test_a_server_that_cannot_start_is_told_by_the_first_call(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "server" / "app.py").write_text("raise ValueError('no luck')")
    client = openenv.make(folder).sync()
    with pytest.raises(ProviderError, match="no luck"):
        client.reset()
    client.close()


def test_many_clients_at_once(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    action = openenv.find_environment(folder).action_class()

    async def episode(number: int) -> float:
        async with openenv.make(folder) as client:
            await client.reset()
            return float((await client.step(action(message="x" * number))).reward or 0.0)

    async def episodes() -> list[float]:
        return await asyncio.gather(*(episode(number) for number in range(3)))

    assert asyncio.run(episodes()) == [0.0, 0.1, 0.2]


def test_another_worlds_environment_gets_a_server_of_its_own() -> None:
    with openenv.make("gymnasium:CliffWalking-v1", max_sessions=1).sync() as client:
        assert client.reset(seed=1).observation["observation"] == 36
        assert client.step({"action": 0}).observation["observation"] == 24
