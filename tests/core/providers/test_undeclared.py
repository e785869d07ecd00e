"""Providers that derive from nothing of ours: their methods are enough, for containers and for plain servers."""

from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.servers import RunningServer

from echo_env import EchoAction, EchoEnv, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv import AutoEnv, GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError


class Started:
    """Notes how it was used, and serves in this process."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        app = create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=8)
        self.server = RunningServer(app)


class Containers(Started):
    """What a provider of containers has, and no more."""

    def start_container(self, image: str = "own", env_vars: dict[str, str] | None = None) -> str:
        self.calls.append((image, env_vars))
        return self.server.start().url

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        self.calls.append((base_url, timeout_s))

    def stop_container(self) -> None:
        self.calls.append("stop")
        self.server.stop()


class Runtime(Started):
    """What a provider of servers has, and no more."""

    def start(self, env_vars: dict[str, str] | None = None) -> str:
        self.calls.append(env_vars)
        return self.server.start().url

    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        self.calls.append(timeout_s)

    def stop(self) -> None:
        self.calls.append("stop")
        self.server.stop()


def test_containers_of_an_image() -> None:
    containers: Any = Containers()
    handle = EchoEnv.from_docker_image("echo:1", containers, env_vars={"A": "1"}, wait_timeout=7.0)
    with handle.sync() as env:
        assert env.reset().observation.echoed_message
    assert containers.calls == [("echo:1", {"A": "1"}), (containers.server.url, 7.0), "stop"]


def test_containers_that_know_their_image() -> None:
    containers: Any = Containers()
    with GenericEnvClient(provider=containers).sync() as env:
        env.reset()
    assert containers.calls == [("own", None), (containers.server.url, 30.0), "stop"]


def test_a_server_that_is_started() -> None:
    runtime: Any = Runtime()
    with GenericEnvClient(provider=runtime).sync() as env:
        env.reset()
    assert runtime.calls == [None, 30.0, "stop"]
    project: Any = Runtime()
    with EchoEnv.from_env("me/echo", use_docker=False, provider=project, env_vars={"A": "1"}).sync() as echo:
        echo.reset()
    assert project.calls == [{"A": "1"}, 30.0, "stop"]


def test_what_a_program_has_in_its_own_tests() -> None:
    """The public package's tests hand in such objects, which have every method."""
    with RunningServer(create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation)) as server:
        provider = Mock()
        provider.start_container.return_value = server.url
        with EchoEnv.from_docker_image("echo:1", provider).sync() as env:
            env.reset()
    provider.start_container.assert_called_once_with("echo:1")
    provider.stop_container.assert_called_once_with()


def test_a_provider_of_a_programs_tests_starts_a_server_where_no_container_is_wanted() -> None:
    with RunningServer(create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation)) as server:
        provider = Mock()
        provider.start.return_value = server.url
        with EchoEnv.from_env("me/echo", use_docker=False, provider=provider).sync() as env:
            env.reset()
    provider.start.assert_called_once_with()
    provider.stop.assert_called_once_with()
    provider.start_container.assert_not_called()


def test_a_provider_of_a_programs_tests_starts_the_image_of_auto_env() -> None:
    with RunningServer(create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation)) as server:
        provider = Mock()
        provider.start_container.return_value = server.url
        client = AutoEnv.from_env("echo", docker_image="echo:1", container_provider=provider, skip_install=True)
        with client.sync() as env:
            env.reset()
    assert provider.start_container.call_args.args == ("echo:1",)
    provider.stop_container.assert_called_once_with()


def test_containers_that_are_told_no_image() -> None:
    containers = Mock(spec=["start_container", "wait_for_ready", "stop_container"])
    containers.start_container = lambda image: image
    with pytest.raises(ConfigurationError, match=r"Mock\.start_container\(\) requires image.*from_docker_image"):
        GenericEnvClient(provider=containers).sync().reset()


def test_a_server_that_runs_already_needs_only_stop() -> None:
    provider = Mock(spec=["stop"])
    GenericEnvClient(base_url="http://localhost:1", provider=provider).sync().close()
    provider.stop.assert_called_once_with()


def test_what_can_only_stop_a_server_needs_its_address() -> None:
    provider = Mock(spec=["stop"])
    with pytest.raises(ConfigurationError, match="Expected base_url beside a provider that has stop and no start"):
        GenericEnvClient(provider=provider).sync().reset()


def test_what_has_none_of_the_methods() -> None:
    nothing: Any = object()
    expected = "Expected a provider, which has start_container, or start, or stop for a server that runs already"
    with pytest.raises(ConfigurationError, match=f"{expected}, got <object"):
        GenericEnvClient(provider=nothing)
    with pytest.raises(ConfigurationError, match="Derive it from ContainerProvider"):
        EchoEnv.from_docker_image("echo:1", nothing)
    runtime: Any = Mock(spec=["start", "stop", "wait_for_ready"])
    with pytest.raises(ConfigurationError, match="Expected a ContainerProvider to start the image"):
        EchoEnv.from_docker_image("echo:1", runtime)
