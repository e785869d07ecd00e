"""Clients and actions by an environment's name."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.environment_folders import write_files
from tests.support.public_folders import PUBLIC_FOLDERS, diary_env
from tests.support.servers import RunningServer

import openenv
from echo_env import EchoAction, EchoEnv
from openenv import AutoAction, AutoEnv, EnvClient, GenericAction, GenericEnvClient
from openenv.auto.auto_env import PROBE_S, answers_at, running_space
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, EnvironmentNotFoundError, ProviderError
from openenv.core.providers.base import ContainerProvider
from openenv.core.providers.local_process import LocalProcessProvider

NOBODY = "http://127.0.0.1:9"
NOBODY_ELSEWHERE = "http://nobody.invalid:9"


@pytest.fixture(autouse=True)
def no_running_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces run nowhere unless a test says where, and no proxy stands between."""
    monkeypatch.setenv("OPENENV_SPACE_URL", NOBODY)
    for name in ("http_proxy", "HTTP_PROXY", "OPENENV_TRUST_REMOTE_CODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    """The address of an echo server."""
    with LocalProcessProvider("echo") as server:
        server.wait_for_ready(100)
        yield server.base_url


def says_hi(client: EnvClient[Any, Any, Any], action: Any) -> Any:
    with client.sync() as env:
        env.reset()
        return env.step(action).observation


@pytest.mark.parametrize("name", ["echo", "echo-env", "echo_env", "Echo"])
def test_every_form_of_a_name_means_the_same(name: str) -> None:
    assert AutoEnv.get_env_class(name) is EchoEnv
    assert AutoAction.from_env(name) is EchoAction


def test_a_name_alone_has_a_server_started_that_ends_with_the_client() -> None:
    client = AutoEnv.from_env("echo", env_vars={"MAX_CONCURRENT_ENVS": "1"}, wait_timeout=100)
    assert isinstance(client, EchoEnv)
    url = client.base_url
    assert url is not None
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    with pytest.raises(ConnectionFailedError):
        GenericEnvClient(base_url=url).sync().connect()


def test_an_address_is_connected_to_with_the_environments_client(echo_url: str) -> None:
    client = AutoEnv.from_env("echo", base_url=echo_url, message_timeout_s=7)
    assert isinstance(client, EchoEnv)
    assert client.message_timeout_s == 7
    assert says_hi(client, EchoAction(message="hi")).message_length == 2


def test_without_the_package_actions_and_observations_are_dicts(echo_url: str) -> None:
    client = AutoEnv.from_env("no/package-of-this-name", base_url=echo_url, skip_install=True)
    assert type(client) is GenericEnvClient
    assert AutoAction.from_env("anything", skip_install=True) is GenericAction
    assert says_hi(client, GenericAction(message="hi"))["echoed_message"] == "hi"


def test_a_space_has_the_client_of_the_package_of_its_name(echo_url: str) -> None:
    for space in ("openenv/echo-env", "https://huggingface.co/spaces/openenv/echo_env"):
        assert isinstance(AutoEnv.from_hub(space, base_url=echo_url), EchoEnv)
    assert AutoAction.from_hub("openenv/echo-env") is EchoAction
    assert AutoAction.from_hub(env_name="openenv/echo-env") is EchoAction


def test_a_space_that_runs_is_connected_to(echo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_SPACE_URL", echo_url)
    client = AutoEnv.from_hub("openenv/echo-env")
    assert client.base_url == echo_url
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    bare = AutoEnv.from_env("acme/not-installed", skip_install=True)
    assert type(bare) is GenericEnvClient
    assert says_hi(bare, {"message": "hi"})["message_length"] == 2


def test_a_space_that_does_not_run_is_served_here(caplog: pytest.LogCaptureFixture) -> None:
    client = AutoEnv.from_hub("openenv/echo-env", wait_timeout=100)
    assert f"the Space openenv/echo-env does not answer at {NOBODY}" in caplog.text
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    with pytest.raises(ConfigurationError, match=r"leaves nothing of acme/not-installed to be started here"):
        AutoEnv.from_env("acme/not-installed", skip_install=True)


def test_a_space_s_image_is_started_where_a_container_is_asked_for() -> None:
    containers = Containers()
    client = AutoEnv.from_hub("openenv/echo-env", container_provider=containers)
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    assert containers.started == [("registry.hf.space/openenv-echo-env:latest", {})]


def test_a_package_that_is_not_installed_has_to_be_trusted() -> None:
    for ask in (AutoEnv.from_env, AutoAction.from_env):
        with pytest.raises(
            ValueError, match=r"runs code from git\+https://.*acme/not-installed.*trust_remote_code=True"
        ):
            ask("acme/not-installed")


def test_a_server_s_address_may_stand_in_the_place_of_the_name(echo_url: str) -> None:
    assert says_hi(AutoEnv.from_env(echo_url), {"message": "hi"})["message_length"] == 2


def test_another_world_s_environment_is_served_too() -> None:
    with AutoEnv.from_env("gymnasium:CartPole-v1", wait_timeout=100).sync() as env:
        assert not env.reset(seed=1).done


def test_nobody_at_another_machine_s_address_is_told_at_once() -> None:
    with pytest.raises(ValueError, match=f"No server answers at {NOBODY_ELSEWHERE}.*{PROBE_S:g} s") as error:
        AutoEnv.from_env("echo", base_url=NOBODY_ELSEWHERE)
    assert isinstance(error.value.__cause__, ConnectionError)
    with pytest.raises(ConnectionError, match="No server answers"):
        AutoEnv.from_env("echo", base_url=NOBODY_ELSEWHERE, skip_install=True)
    with pytest.raises(ConnectionError, match="skip_install leaves none to be started"):
        AutoEnv.from_env("echo", base_url=NOBODY, skip_install=True)


def test_nobody_at_an_address_of_this_machine_has_a_server_started_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    client = AutoEnv.from_env("echo", base_url=url, wait_timeout=100)
    assert client.base_url == url
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    containers = Containers()
    client = AutoEnv.from_env("echo", base_url=url, docker_image="mine:1", container_provider=containers)
    assert containers.port == urlsplit(url).port
    client.sync().close()


@pytest.mark.parametrize("ask", [AutoEnv.from_env, AutoEnv.get_env_class, AutoEnv.get_env_info, AutoAction.from_env])
def test_an_unknown_name_is_a_value_error_with_what_is_close(ask: Any) -> None:
    with pytest.raises(ValueError, match=r"'wordel'. Did you mean wordle") as error:
        ask("wordel")
    assert isinstance(error.value, EnvironmentNotFoundError)


def test_a_published_environment_that_is_not_installed_says_how_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.auto.discovery.entry_points", lambda group: ())
    monkeypatch.setattr("openenv.auto.discovery._public_distributions", lambda: ())
    with pytest.raises(EnvironmentNotFoundError, match=r"'wordle' is not installed; .*pip install \./envs/wordle_env"):
        AutoEnv.from_env("wordle-env")


class Containers(ContainerProvider):
    """Starts what a container would hold in this process."""

    def __init__(self, fails: bool = False) -> None:
        self.started: list[tuple[str, dict[str, str]]] = []
        self.stopped = 0
        self._fails = fails
        self._server: RunningServer | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        self.started.append((image, env_vars or {}))
        self.port = port
        if self._fails:
            raise ProviderError("no such image")
        self._server = RunningServer(openenv.find_environment("echo").app()).__enter__()
        return self._server.url

    def stop_container(self) -> None:
        self.stopped += 1
        if self._server is not None:
            self._server.__exit__(None, None, None)


@pytest.mark.parametrize(("given", "image"), [(None, "echo-env:latest"), ("mine:1", "mine:1")])
def test_a_container_provider_starts_the_image_and_stops_it_with_the_client(given: str | None, image: str) -> None:
    containers = Containers()
    client = AutoEnv.from_env("echo", docker_image=given, container_provider=containers, env_vars={"A": "b"})
    assert says_hi(client, EchoAction(message="hi")).echoed_message == "hi"
    assert containers.started == [(image, {"A": "b"})]
    assert containers.stopped == 1


def test_a_container_that_does_not_start_is_removed() -> None:
    containers = Containers(fails=True)
    with pytest.raises(ProviderError):
        AutoEnv.from_env("echo", container_provider=containers)
    assert containers.stopped == 1


def test_a_client_that_can_not_be_made_leaves_no_container() -> None:
    containers = Containers()
    with pytest.raises(TypeError, match="no_such_option"):
        AutoEnv.from_env("echo", container_provider=containers, no_such_option=1)
    assert containers.stopped == 1


def test_an_image_alone_is_for_this_machine_s_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    containers = Containers()
    monkeypatch.setattr("openenv.core.providers.LocalDockerProvider", lambda: containers, raising=False)
    client = AutoEnv.from_env("echo", docker_image="mine:1", skip_install=True)
    assert type(client) is GenericEnvClient
    assert says_hi(client, {"message": "hi"})["message_length"] == 2
    assert containers.started == [("mine:1", {})]
    assert containers.stopped == 1


def test_a_server_that_is_not_ready_in_time_is_ended() -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        AutoEnv.from_env("echo", wait_timeout=0.01)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="skip_install=True leaves nothing of echo to be started here"):
        AutoEnv.from_env("echo", skip_install=True)


@pytest.mark.parametrize("cls", [AutoEnv, AutoAction])
def test_there_is_nothing_to_instantiate(cls: type) -> None:
    with pytest.raises(TypeError, match=r"from_env\(name\)"):
        cls()


def test_information_names_the_classes() -> None:
    info = AutoEnv.get_env_info("echo")
    assert (info["env_key"], info["name"], info["package"]) == ("echo", "echo_env", "openenv-echo-env")
    assert (info["env_class"], info["action_class"], info["observation_class"]) == (
        "EchoEnv",
        "EchoAction",
        "EchoObservation",
    )
    assert (info["module"], info["default_image"], info["spec_version"]) == ("echo_env", "echo-env:latest", 1)
    assert info["version"]
    assert info["description"]
    action = AutoAction.get_action_info("echo")
    assert (action["module"], action["action_class"]) == ("echo_env.models", "EchoAction")
    assert "message" in action["schema"]["properties"]


def test_lists_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    AutoEnv.list_environments()
    assert "echo: Says back what it is told" in capsys.readouterr().out
    AutoAction.list_actions()
    assert "echo: EchoAction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "client", "action"),
    [
        ("dice_env", "DiceEnv", {"hold": False}),
        ("notes_env", "NotesEnv", {"type": "call_tool", "tool_name": "write", "arguments": {"title": "a"}}),
    ],
)
def test_folders_of_the_public_package_have_their_own_clients(
    name: str, client: str, action: dict[str, Any], tmp_path: Path
) -> None:
    folder = PUBLIC_FOLDERS[name](tmp_path)
    made = AutoEnv.from_env(str(folder), wait_timeout=100)
    assert type(made).__name__ == client
    made_action = AutoAction.from_env(str(folder)).model_validate(action)
    with made.sync() as env:
        assert not env.reset(seed=1).done
        assert env.step(made_action).observation is not None
        assert env.state().step_count == 1


OLD_NAMES = """
import sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from openenv import AutoAction, AutoEnv
client = AutoEnv.from_env(sys.argv[1], wait_timeout=100)
with client.sync() as env:
    env.reset()
    print(type(client).__name__, env.step(AutoAction.from_env(sys.argv[1])(direction="right")).observation.place)
"""


def test_one_with_the_package_s_old_name_too(tmp_path: Path) -> None:
    """In a fresh interpreter: the import hook of the old name stays for the life of a process."""
    command = [sys.executable, "-c", OLD_NAMES, str(PUBLIC_FOLDERS["relic_env"](tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout == "RelicClient 1.0\n", done.stderr


def test_a_client_that_extends_none_of_ours_speaks_to_its_server(tmp_path: Path) -> None:
    folder = str(diary_env(tmp_path))
    env: Any = AutoEnv.from_env(folder, wait_timeout=100)
    assert type(env).__name__ == "DiaryEnv"
    assert env.reset() == {"observation": {"page": 0}}
    elsewhere: Any = AutoEnv.from_env(folder, base_url=env.base_url)
    assert elsewhere.step({"text": "a"}) == {"observation": {"page": 1}}
    made: Any = openenv.make(folder)
    assert made.reset() == {"observation": {"page": 0}}
    assert made.base_url != env.base_url


def test_an_installed_one_without_a_manifest_is_served_and_listed_also_where_it_can_not_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, requires in ((diary_env(tmp_path), "openenv"), (tmp_path / "torn_env", "openenv-core")):
        (folder / "openenv.yaml").unlink(missing_ok=True)
        metadata = f"Metadata-Version: 2.1\nName: {folder.name}\nVersion: 1.0\nRequires-Dist: {requires}\n"
        write_files(tmp_path, {f"{folder.name}-1.0.dist-info/METADATA": metadata})
    write_files(tmp_path / "torn_env", {"__init__.py": "", "client.py": "import no_such_engine\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    env: Any = AutoEnv.from_env("diary", wait_timeout=100, env_vars={"PYTHONPATH": str(tmp_path)})
    assert env.reset() == {"observation": {"page": 0}}
    AutoAction.list_actions()
    lines = capsys.readouterr().out.splitlines()
    assert "diary_env: DiaryAction" in lines
    assert any(line.startswith("torn_env: can't be imported: ") and "no_such_engine" in line for line in lines)


@pytest.mark.parametrize("code", ["import sys\nsys.exit(3)", "1/0", "raise SystemExit('no engine')"])
def test_actions_are_listed_past_a_package_that_raises(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_files(tmp_path / "ended_env", {"__init__.py": "", "client.py": "", "models.py": code})
    write_files(tmp_path / "ended_env-1.0.dist-info", {"METADATA": "Name: ended-env\nRequires-Dist: openenv\n"})
    assert folder.is_dir()
    monkeypatch.syspath_prepend(str(tmp_path))
    AutoAction.list_actions()
    lines = capsys.readouterr().out.splitlines()
    assert "echo: EchoAction" in lines
    assert any(line.startswith("ended_env: can't be imported: ") for line in lines)


def test_who_answers_is_found(counter_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_at(counter_server.url)
    monkeypatch.setenv("OPENENV_SPACE_URL", counter_server.url)
    assert running_space("acme/tally-env") == counter_server.url


@pytest.mark.level("socket")
def test_nobody_on_this_machine_can_be_helped_and_elsewhere_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not answers_at("http://127.0.0.1:9")
    monkeypatch.setattr("openenv.auto.auto_env.PROBE_S", 0.2)
    with pytest.raises(ConnectionFailedError, match=r"No server answers at http://nobody\.invalid:9: .*within 0\.2 s"):
        answers_at("http://nobody.invalid:9")
    with pytest.raises(ConfigurationError, match="looks like http://host:port"):
        answers_at("nobody")
    monkeypatch.setenv("OPENENV_SPACE_URL", "http://127.0.0.1:9/{subdomain}")
    assert running_space("acme/tally-env") is None
    assert "does not answer at http://127.0.0.1:9/acme-tally-env" in caplog.text
