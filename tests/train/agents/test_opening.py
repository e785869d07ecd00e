"""Agents that settings name, opened with their environments."""

import pytest
from tests.support.models.model_server import ScriptedModel, climb
from tests.support.servers import RunningServer

from openenv.auto.discovery import find_environment
from openenv.core.generic_client import GenericEnvClient
from openenv.train.agents.opening import open_agent
from openenv.train.settings.play_settings import PlaySettings


@pytest.mark.parametrize("environment", ["catch", "not_installed"])
def test_a_served_model_plays_with_the_types_of_an_installed_package(
    stairs_server: RunningServer, environment: str
) -> None:
    scripted = ScriptedModel(climb)
    with scripted.server:
        settings = PlaySettings(
            environment=environment, base_url=stairs_server.url, model="climber", llm_endpoint=scripted.url
        )
        with open_agent(settings, 1) as (_, sessions):
            is_installed = environment == "catch"
            expected = find_environment(environment).client_class() if is_installed else GenericEnvClient
            assert type(sessions.client.async_client) is expected
