"""Servers as services of a real swarm: reached, broken and left behind.

Its ports are published by the machine itself, since containers of these tests may have no IPVS to spread connections.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.servers import eventually
from tests.support.services import docker_engine

from openenv import GenericEnvClient
from openenv.core.containers.runtime import DockerSwarmProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerUnauthorizedError
from openenv.core.providers.docker.labels import OWNER

DYING_CLIENT = """
import sys
from openenv.core.containers.runtime import DockerSwarmProvider

provider = DockerSwarmProvider(sys.argv[1], publish="host")
provider.start_container()
print(provider.service_name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def swarm() -> Iterator[None]:
    """A swarm, which ends with the tests unless this machine was in one."""
    docker_engine.require_engine()
    was_in_one = docker("info", "--format", "{{.Swarm.LocalNodeState}}") == "active"
    yield
    if not was_in_one:
        docker("swarm", "leave", "--force")


@pytest.fixture(scope="module")
def echo_image() -> str:
    """The image of the environment that echoes."""
    return docker_engine.image_of("echo_env")


@pytest.fixture
def provider(echo_image: str) -> Iterator[DockerSwarmProvider]:
    """A provider, whose service ends with the test."""
    provider = DockerSwarmProvider(echo_image, publish="host")
    yield provider
    provider.shut_down()


def docker(*arguments: str) -> str:
    finished = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=300)
    return finished.stdout.strip()


def services() -> list[str]:
    return docker("service", "ls", "--filter", f"label={OWNER}", "--format", "{{.Name}}").split()


def test_a_client_plays_in_a_service_of_its_own(provider: DockerSwarmProvider) -> None:
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        assert services() == [provider.service_name]
        with pytest.raises(ServerUnauthorizedError), GenericEnvClient(base_url=provider.base_url).sync() as stranger:
            stranger.reset()
    assert services() == []
    assert provider.service_name is None


def test_what_a_service_is_made_of(provider: DockerSwarmProvider) -> None:
    provider.start_container(
        env_vars={"GREETING": "hi"},
        cpu_limit="0.5",
        memory_limit="256m",
        labels={"team": "games"},
        constraints=["node.role==manager"],
        command="python3 -m http.server 8000",
    )
    (service,) = json.loads(docker("service", "inspect", str(provider.service_name)))
    task = service["Spec"]["TaskTemplate"]
    container = task["ContainerSpec"]
    assert {"GREETING=hi", f"OPENENV_TOKEN={provider.token}"} <= set(container["Env"])
    assert container["Args"] == ["python3", "-m", "http.server", "8000"]
    assert (container["Init"], container["CapabilityDrop"]) == (True, ["ALL"])
    assert task["Resources"]["Limits"] == {"NanoCPUs": 5 * 10**8, "MemoryBytes": 256 * 2**20}
    assert "node.role==manager" in task["Placement"]["Constraints"]
    assert service["Spec"]["Labels"]["team"] == "games"
    assert service["Spec"]["Mode"]["Replicated"]["Replicas"] == 1


def test_by_default_two_containers_share_a_port_of_the_whole_swarm(echo_image: str) -> None:
    with DockerSwarmProvider(overlay_network="openenv-tests-overlay") as provider:
        try:
            url = provider.start_container(echo_image)
            (service,) = json.loads(docker("service", "inspect", str(provider.service_name)))
        finally:
            provider.stop_container()
    (port,) = service["Endpoint"]["Ports"]
    assert (port["PublishMode"], port["TargetPort"]) == ("ingress", 8000)
    assert url == f"http://127.0.0.1:{port['PublishedPort']}"
    assert service["Spec"]["Mode"]["Replicated"]["Replicas"] == 2
    network = json.loads(docker("network", "inspect", "openenv-tests-overlay"))[0]
    assert [each["Target"] for each in service["Spec"]["TaskTemplate"]["Networks"]] == [network["Id"]]
    assert (network["Driver"], network["Attachable"]) == ("overlay", True)


def test_a_server_that_only_ends_is_an_error_with_its_log(echo_image: str) -> None:
    broken = docker_engine.variant_of(echo_image, "broken", 'CMD ["python3", "-c", "raise SystemExit(\'no model\')"]\n')
    provider = DockerSwarmProvider(broken, publish="host")
    with pytest.raises(ProviderError, match=r"(?s)The service openenv-.*-broken-\w+ does not run: .*no model"):
        provider.launch()
    assert services() == []


def test_a_service_that_is_removed_by_others(provider: DockerSwarmProvider) -> None:
    provider.launch()
    docker("service", "rm", str(provider.service_name))
    with pytest.raises(ProviderError, match="was removed by another process"):
        provider.check_alive()
    provider.stop_container()


def test_a_killed_client_leaves_no_service_behind(echo_image: str) -> None:
    command = [sys.executable, "-c", DYING_CLIENT, echo_image]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name in services()
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: name not in services(), "the service is removed")


def test_what_can_t_be_started(provider: DockerSwarmProvider) -> None:
    with pytest.raises(ConfigurationError, match=r"does not know gpus; besides image, port and env_vars it takes repl"):
        provider.start_container(gpus=1)
    with pytest.raises(ConfigurationError, match="Expected replicas to be at least 1, got 0"):
        provider.start_container(replicas=0)
    with pytest.raises(ConfigurationError, match="publish='host' reaches one replica, got replicas=2"):
        provider.start_container(replicas=2)
    with pytest.raises(ConfigurationError, match="Expected cpu_limit to be a number, got 'much'"):
        provider.start_container(cpu_limit="much")
    with pytest.raises(ConfigurationError, match="Expected publish to be ingress or host, got 'loopback'"):
        DockerSwarmProvider(publish="loopback")  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match="There is no image openenv-tests-none:none here"):
        provider.start_container("openenv-tests-none:none")
    nameless = DockerSwarmProvider()
    with pytest.raises(ConfigurationError, match="No image was named"):
        nameless.start_container()
    nameless.close()
    assert (provider.service_name, provider.logs(), services()) == (None, "", [])


def test_a_second_service_at_once(provider: DockerSwarmProvider) -> None:
    provider.start_container()
    with pytest.raises(ProviderError, match=r"is running already; stop_container\(\) it first"):
        provider.start_container()
