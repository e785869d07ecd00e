import asyncio
from collections.abc import Iterator

import pytest

from browsergym_env import BrowserGymAction, BrowserGymEnv, BrowserGymState
from openenv.core.exceptions import ServerError
from openenv.core.mcp_client import MCPToolClient
from openenv.core.providers.local_process import LocalProcessProvider

pytestmark = pytest.mark.needs("browser")


@pytest.fixture(scope="module")
def url(_chromium: None) -> Iterator[str]:
    """The address of a server with 8 sessions, in a process of its own."""
    variables = {"BROWSERGYM_TASK_NAME": "enter-text", "BROWSERGYM_TIMEOUT": "60000"}
    with LocalProcessProvider("browsergym", env_vars=variables) as server:
        server.wait_for_ready()
        yield server.base_url


async def test_an_episode_over_the_wire(url: str) -> None:
    async with BrowserGymEnv(base_url=url) as env:
        result = await env.reset(seed=3)
        assert result.observation.goal == 'Enter "Cheree" into the text field and press Submit.'
        assert result.observation.screenshot is not None
        assert len(result.observation.screenshot) == 210
        result = await env.step(BrowserGymAction(action_str="fill('14', 'O'Connor')"))
        assert (result.reward, result.done, result.observation.last_action_error) == (0.0, False, True)
        result = await env.step(BrowserGymAction.call("fill", "14", "Cheree"))
        result = await env.step(BrowserGymAction.call("click", "15"))
        assert (result.reward, result.done) == (1.0, True)
        state = await env.state()
        assert isinstance(state, BrowserGymState)
        assert (state.task_name, state.step_count, state.cum_reward) == ("enter-text", 3, 1.0)


async def test_a_reset_chooses_the_task_and_an_unknown_one_is_told(url: str) -> None:
    async with BrowserGymEnv(base_url=url) as env:
        result = await env.reset(seed=3, task_name="click-test", screenshot=False)
        assert (result.observation.goal, result.observation.screenshot) == ("Click the button.", None)
        with pytest.raises(ServerError, match=r"no task 'clik-test'.*such as click-test"):
            await env.reset(task_name="clik-test")
        assert (await env.step(BrowserGymAction(action_str="click('13')"))).reward == 1.0


async def test_an_agent_does_a_task_with_tools(url: str) -> None:
    async with MCPToolClient(base_url=url) as env:
        assert "O'Connor" not in (await env.reset(seed=3)).observation.model_dump_json()
        shown = await env.call_tool("fill", bid="14", text="O'Connor")
        assert 'value="O\'Connor"' in shown


async def test_a_session_is_forked_by_playing_it_again(url: str) -> None:
    async with BrowserGymEnv(base_url=url) as env:
        await env.reset(seed=3, screenshot=False)
        await env.step(BrowserGymAction.call("fill", "14", "Cheree"))
        (other,) = await env.fork(1)
        results = await asyncio.gather(*(one.step(BrowserGymAction.call("click", "15")) for one in (env, other)))
        assert [result.reward for result in results] == [1.0, 1.0]
        await other.close()
