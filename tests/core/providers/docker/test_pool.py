"""Warm containers: real ones, each for one client."""

import os
import subprocess

import pytest
from tests.core.providers.docker.conftest import inside, runs
from tests.core.providers.docker.test_provider import left_by
from tests.support.servers import eventually
from tests.support.services import docker_engine

from openenv import GenericEnvClient
from openenv.core.containers.runtime import DockerPool
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.docker.owner import Owner


def test_each_client_gets_a_container_that_nobody_had(echo_image: str) -> None:
    with DockerPool(echo_image, size=2, grace_s=0) as pool:
        seen = set()
        for _ in range(3):
            provider = pool.container()
            with GenericEnvClient(provider=provider).sync() as client:
                client.reset()
                assert client.step({"message": "hello"}).reward == 0.5
                seen.add(provider.launched.provider.container_name)
        assert len(seen) == 3
        pool.wait_until_full()
        assert len(left_by(os.getpid())) == 2
    assert left_by(os.getpid()) == []


def test_what_is_handed_out_comes_on_top_and_is_removed_when_given_back(small_image: str) -> None:
    with DockerPool(small_image, size=2, grace_s=0) as pool:
        taken = [pool.container() for _ in range(2)]
        urls = {container.launch() for container in taken}
        pool.wait_until_full()
        assert len(urls) == 2
        assert len(left_by(os.getpid())) == 4
        assert inside(taken[0].launched.provider, "open('/opt/mark', 'w')").returncode == 0
        taken[0].shut_down()
        taken[0].shut_down()
        assert len(left_by(os.getpid())) == 3
        with pytest.raises(ProviderError, match="has a container already"):
            taken[1].launch()
    assert len(left_by(os.getpid())) == 1  # the one that is handed out
    taken[1].check_alive()
    taken[1].shut_down()
    assert left_by(os.getpid()) == []


def test_one_that_ended_while_it_stood_ready_is_replaced(small_image: str) -> None:
    with DockerPool(small_image, size=1, grace_s=0) as pool:
        pool.wait_until_full()
        (standing,) = docker_engine.containers("--filter", f"label={OWNER}={Owner.this_process()}")
        subprocess.run(["docker", "kill", standing], check=True, capture_output=True)
        taken = pool.take()
        taken.provider.check_alive()
        assert standing not in docker_engine.containers()
        taken.provider.shut_down()


def test_an_image_that_does_not_start_is_told_to_whoever_takes_one() -> None:
    image = docker_engine.variant_of(docker_engine.python_image(), "ends-too", runs("raise SystemExit('no model')"))
    with DockerPool(image, size=1) as pool:
        for _ in range(2):
            with pytest.raises(ProviderError, match="no model"):
                pool.take()
    assert left_by(os.getpid()) == []


def test_one_that_is_not_ready_in_time_is_not_waited_for(small_image: str) -> None:
    with DockerPool(small_image, size=1, grace_s=0) as pool:
        with pytest.raises(TimeoutError):
            pool.take(timeout_s=0)
        pool.wait_until_full()
        eventually(lambda: len(left_by(os.getpid())) == 1, "the one that came too late is removed")
    with pytest.raises(ProviderError, match="is closed"):
        pool.take()
    with pytest.raises(ConfigurationError, match="size is 0"):
        DockerPool(small_image, size=0)
