"""An episode that is played call by call, on a server."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.environments.training import CRASHING_SEEDS, FAILING_RESET_SEEDS
from tests.support.servers import RunningServer

from openenv.core.exceptions import ServerExecutionError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.train.forms.tool_form import EPISODE_FAILED, EPISODE_OVER, ToolForm
from openenv.train.rollout.tool_play import ToolPlay
from openenv.train.tools.environment_tools import EnvironmentTools

Client = SyncEnvClient[Any, Any, Any]
UP = {"move": "up"}


@pytest.fixture(scope="module")
def client(stairs_server: RunningServer) -> Iterator[Client]:
    with GenericEnvClient(base_url=stairs_server.url, capacity_wait_s=30.0).sync() as client:
        yield client


@pytest.fixture(scope="module")
def form(client: Client) -> ToolForm:
    return ToolForm(EnvironmentTools.of(client))


def test_calls_are_done_until_the_episode_is_over(client: Client, form: ToolForm) -> None:
    play = ToolPlay({"seed": 1}, client, form)  # two steps high
    assert not play.reset().done
    assert "of 2" in str(play.call("climb", UP))
    play.call("climb", UP)
    assert play.episode.done
    assert play.episode.reward == pytest.approx(0.75)
    assert [turn.action for turn in play.episode.turns] == ['climb {"move": "up"}'] * 2
    assert play.call("climb", UP) == EPISODE_OVER
    assert len(play.episode.turns) == 2


def test_a_call_that_is_none_is_answered_with_the_reason(client: Client, form: ToolForm) -> None:
    play = ToolPlay({"seed": 0}, client, form, max_turns=3)
    play.reset()
    assert play.call("fly", {}) == "There is no tool 'fly'; the tools are climb."
    assert play.call("climb", {"move": "fall asleep"}) == "No sleeping on the stairs."
    assert play.call("climb", '{"move": ', "the arguments are no JSON") == "the arguments are no JSON"
    assert [turn.action for turn in play.episode.turns][::2] == ["fly {}", 'climb {"move": ']
    assert (play.episode.illegal_actions, play.episode.cut_by) == (3, "max_turns")
    assert play.call("climb", UP) == EPISODE_OVER


def test_a_failure_ends_the_episode(client: Client, form: ToolForm) -> None:
    play = ToolPlay({"seed": CRASHING_SEEDS + 3}, client, form)
    play.reset()
    while not play.is_over:
        shown = play.call("climb", UP)
    assert shown == play.call("climb", UP) == EPISODE_FAILED
    assert isinstance(play.episode.error, ServerExecutionError)


def test_a_reset_that_fails_is_raised_and_the_episode_s_error(client: Client, form: ToolForm) -> None:
    play = ToolPlay({"seed": FAILING_RESET_SEEDS}, client, form)
    with pytest.raises(ServerExecutionError) as caught:
        play.reset()
    assert play.episode.error is caught.value
    assert play.call("climb", UP) == EPISODE_FAILED
