"""What an environment may be named by."""

from contextlib import ExitStack

import pytest
from tests.adapters.gymnasium.conftest import CARTPOLE
from tests.support.servers import RunningServer

from openenv.adapters.gymnasium.opening import open_client
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.core.generic_client import GenericEnvClient

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("environment", ["catch", str(CARTPOLE), CARTPOLE], ids=["name", "text", "folder"])
def test_a_name_or_folder_is_served_when_it_is_needed(environment: str) -> None:
    with ExitStack() as opened:
        client = open_client(environment, 2, opened)
        assert client.base_url is None
        with client.sync().vector(2) as vector:
            assert [type(result).__name__ for result in vector.reset()] == ["StepResult"] * 2


def test_an_address_is_not_asked_before_it_is_needed() -> None:
    with ExitStack() as opened:
        client = open_client("http://127.0.0.1:9/", 2, opened)
        assert type(client) is GenericEnvClient
        assert client.base_url == "http://127.0.0.1:9"


def test_a_client_is_taken_as_it_is_and_left_to_its_owner(walk_server: RunningServer) -> None:
    with GenericEnvClient(base_url=walk_server.url).sync() as client:
        client.reset()
        with ExitStack() as opened:
            assert open_client(client, 2, opened) is client.async_client
            assert open_client(client.async_client, 2, opened) is client.async_client
        assert client.step({"way": "left"}).reward == -0.25


def test_no_such_environment() -> None:
    with ExitStack() as opened, pytest.raises(EnvironmentNotFoundError):
        open_client("no-such-environment", 2, opened)
