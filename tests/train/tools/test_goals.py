"""Goals of environments, by what their servers publish."""

import pytest
from fastapi import FastAPI
from tests.support.servers import RunningServer

from openenv import find_environment
from openenv.core.client.blocking import wait_for
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConnectionFailedError
from openenv.core.generic_client import GenericEnvClient
from openenv.train.tools.goals import goal_text, served_goal


def goal_of(url: str, name: str = "") -> str:
    with GenericEnvClient(base_url=url).sync() as client:
        found: str = wait_for(served_goal, client.async_client, name)
    return found


def test_a_server_has_the_goal_of_its_package() -> None:
    package = find_environment("catch")
    app = create_fastapi_app(package.environment_class(), package.action_class(), package.observation_class())
    with RunningServer(app) as server:
        assert goal_of(server.url) == goal_text(package.name, package.description)


def test_a_server_without_metadata_has_the_name_that_it_is_given() -> None:
    with RunningServer(FastAPI()) as server:
        client = GenericEnvClient(base_url=server.url)
        assert wait_for(served_goal, client, "stairs") == "You act in the environment stairs. "
        assert wait_for(served_goal, client) == ""


def test_a_server_that_is_gone_has_none() -> None:
    client = GenericEnvClient(base_url="http://127.0.0.1:9")
    with pytest.raises(ConnectionFailedError, match="Expected the environment's name and description at"):
        wait_for(served_goal, client)
